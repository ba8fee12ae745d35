// SPDX-License-Identifier: Apache-2.0

package curatorstore

import (
	"context"
	"errors"
	"slices"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
	"github.com/fencelock/fencelock/store/zkstore/internal/zktree"
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("curator")...) }

// Open connects to the ensemble at a URL and returns a store on it. It asks once, so that a wrong
// address is reported now. Errors never show a password.
//
//	curator://[user:password@]host[:port][,host[:port]...][/root][?parameters]
//	curators://...
//
// curators is TLS. The path is Options.Root, user and password are Options.Auth. A setting that is in
// opts, too, must have the same value there. The parameters are those of zkstore, and:
//
//	namespace            Options.Root without its first slash, instead of the path
//	recipe               Options.Recipe: mutex, readwrite or latch
//	persistent_parents   Options.PersistentParents
//	revoke               Options.Revoke
//	fenced_peers         Options.FencedPeers
//	sessions             Options.Sessions without its first slash
func Open(ctx context.Context, url string, opts *Options) (*Store, error) {
	servers, o, err := parseURL(url, opts)
	if err != nil {
		return nil, err
	}
	t, err := o.tree()
	if err != nil {
		return nil, err
	}
	s, err := zktree.Open(ctx, servers, t)
	if err != nil {
		return nil, err
	}
	return &Store{s}, nil
}

// parseURL reads a URL into a copy of opts.
func parseURL(url string, opts *Options) ([]string, *Options, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	var kind, sessions string
	more := storekit.Parameters{
		"recipe": storekit.Text(&kind), "sessions": storekit.Text(&sessions),
		"persistent_parents": storekit.Option("PersistentParents", &o.PersistentParents, storekit.Bool),
		"revoke":             storekit.Option("Revoke", &o.Revoke, storekit.Bool),
		"fenced_peers":       storekit.Option("FencedPeers", &o.FencedPeers, storekit.Bool),
	}
	t := zktree.Options{TickTime: o.TickTime, MinTTL: o.MinTTL, MaxTTL: o.MaxTTL, Auth: o.Auth, Dial: o.Dial}
	servers, namespace, err := zktree.ParseURL("curatorstore", "curator", url, &t, more)
	o.TickTime, o.MinTTL, o.MaxTTL, o.Auth, o.Dial = t.TickTime, t.MinTTL, t.MaxTTL, t.Auth, t.Dial
	if err == nil && namespace != "" {
		err = storekit.Part("curatorstore", "namespace", "Root", &o.Root, namespace)
	}
	if err == nil && sessions != "" {
		err = storekit.Part("curatorstore", "parameter sessions", "Sessions", &o.Sessions, "/"+sessions)
	}
	if err == nil && kind != "" {
		err = o.setRecipe(kind)
	}
	return servers, &o, err
}

// setRecipe reads the name of a recipe.
func (o *Options) setRecipe(name string) error {
	i := slices.Index([]string{"mutex", "readwrite", "latch"}, name)
	if i < 0 {
		return errors.New("curatorstore: the parameter recipe in the URL takes mutex, readwrite or latch")
	}
	return storekit.Part("curatorstore", "parameter recipe", "Recipe", &o.Recipe, Recipe(i))
}
