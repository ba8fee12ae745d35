// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// OpenedStore is a store that was opened by a URL. It is a Store that has its own
// connections, so it has to be closed. All stores of this repository are a Checker, too.
//
// It is an interface and not a struct with functions, so that a program can use what the
// store's package has beyond it, by a type assertion. Check is not part of it because a
// server of another store may not support it: a method that always fails would be taken
// for a bad server.
type OpenedStore interface {
	Store
	// Close closes the connections. Close all clients of the store first.
	Close() error
}

// Checker is a store that can ask its servers whether they are fit to keep locks; see
// Finding. A store that is made of others asks those of them that are a Checker.
type Checker interface {
	Check(ctx context.Context) ([]Finding, error)
}

// OpenOptions are what a program wants from OpenStore and a URL cannot express. The zero
// value is fine.
type OpenOptions struct {
	// Warn is called with what is wrong with the servers, notes included, as far as the
	// store checks by itself. It may be called from several goroutines. Default: a line
	// to log/slog.
	Warn func(Finding)
	// Refused lets OpenStore open a store on whose servers locks are unsafe, to read
	// and to break locks. It is called with the reason, and no lock can be acquired
	// then. By default such a store is an error, if it is found out at once, and
	// otherwise the first session is.
	Refused func(reason error)
}

// Opener opens the store at a URL of a scheme that it was registered for. Its errors
// show nothing of the URL that may be a secret.
type Opener func(ctx context.Context, url string, opts OpenOptions) (OpenedStore, error)

var openers = struct {
	sync.RWMutex
	by map[string]Opener
}{by: map[string]Opener{}}

// Register lets OpenStore open URLs of some schemes. A store calls it when its package is
// initialized, so that a program chooses its stores by importing them. It panics if a
// scheme is registered already, or is not written in lower case.
func Register(open Opener, schemes ...string) {
	openers.Lock()
	defer openers.Unlock()
	if open == nil {
		panic("driver: Register: the opener is nil")
	}
	for _, s := range schemes {
		if !schemeForm.MatchString(s) {
			panic(fmt.Sprintf("driver: Register: %q is not a scheme: use small letters, digits and hyphens", s))
		}
		if openers.by[s] != nil {
			panic(fmt.Sprintf("driver: Register: the scheme %q is registered already", s))
		}
		openers.by[s] = open
	}
}

// Schemes returns the registered schemes in order.
func Schemes() []string {
	openers.RLock()
	defer openers.RUnlock()
	return slices.Sorted(maps.Keys(openers.by))
}

// OpenStore opens the store at a URL with the Opener of its scheme. No error shows a
// secret of the URL.
func OpenStore(ctx context.Context, url string, opts OpenOptions) (OpenedStore, error) {
	scheme, _, ok := strings.Cut(url, "://")
	if !ok {
		return nil, errors.New("fencelock: the store's URL has no scheme; write it as redis://localhost:6379 (it is not shown, it may hold a password)")
	}
	openers.RLock()
	open := openers.by[scheme]
	openers.RUnlock()
	if open == nil {
		return nil, unknownScheme(scheme)
	}
	return open(ctx, url, opts)
}

// schemeForm is the form of a scheme.
var schemeForm = regexp.MustCompile(`^[a-z][a-z0-9-]{0,30}$`)

// unknownScheme names the import that registers a scheme. The scheme is shown only if it
// looks like one: of a URL that was not written right it may be a password.
func unknownScheme(scheme string) error {
	if path := imports[scheme]; path != "" {
		return fmt.Errorf("fencelock: the store of %s:// is not linked into this program; add import _ %q", scheme, path)
	}
	if schemeForm.MatchString(scheme) {
		if meant := Closest(scheme, slices.Concat(Schemes(), slices.Sorted(maps.Keys(imports)))...); meant != "" {
			return fmt.Errorf("fencelock: unknown scheme %s:// in the store's URL; did you mean %s://?", scheme, meant)
		}
	}
	known := "no store is linked into this program; add import _ " + `"` + imports["redis"] + `", for example`
	if schemes := Schemes(); len(schemes) > 0 {
		known = "there are " + strings.Join(schemes, ", ") + "; import the package of another store for its schemes"
	}
	if !schemeForm.MatchString(scheme) {
		return fmt.Errorf("fencelock: the store's URL does not begin with a known scheme (it is not shown, it may hold a password); %s", known)
	}
	return fmt.Errorf("fencelock: unknown scheme %s:// in the store's URL; %s", scheme, known)
}

// schemes has the schemes of our stores by the package that registers them, below store/. A
// store registers its Variants, so that they are listed once.
var schemes = []struct{ pkg, first, more string }{
	{"memstore", "mem", ""},
	{"redisstore", "redis", "rediss redis-sentinel rediss-sentinel redis-cluster rediss-cluster valkey valkeys valkey-sentinel valkeys-sentinel valkey-cluster valkeys-cluster"},
	{"redisstore/redisquorum", "quorum", "quorums"},
	{"redisstore/redissonstore", "redisson", "redissons redisson-sentinel redissons-sentinel redisson-cluster redissons-cluster"},
	{"redisstore/setnxstore", "setnx", "setnxs setnx-sentinel setnxs-sentinel setnx-cluster setnxs-cluster"},
	{"etcdstore", "etcd", "etcds"},
	{"etcdstore/concurrencystore", "etcd-concurrency", "etcds-concurrency"},
	{"zkstore", "zk", "zks"},
	{"zkstore/curatorstore", "curator", "curators"},
	{"sqlstore", "postgres", "postgresql"},
	{"sqlstore", "mysql", "mariadb"},
	{"memcachestore", "memcached", "memcacheds"},
}

// Variants returns the schemes of a store of this repository: the one for a plain connection to one
// server, by which it is asked for, and then those with the same meaning, for TLS, for a cluster and so on.
func Variants(scheme string) []string {
	for _, s := range schemes {
		if s.first == scheme {
			return append([]string{scheme}, strings.Fields(s.more)...)
		}
	}
	return nil
}

// imports has the package of each scheme, for the error of a program that does not import it.
var imports = func() map[string]string {
	all := map[string]string{}
	for _, s := range schemes {
		for _, scheme := range Variants(s.first) {
			all[scheme] = "github.com/fencelock/fencelock/store/" + s.pkg
		}
	}
	return all
}()
