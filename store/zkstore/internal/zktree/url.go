// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"cmp"
	"context"
	"maps"
	"strings"

	"github.com/fencelock/fencelock/driver/storekit"
)

// Open connects to the ensemble and returns a store on it. It asks once, so that a wrong
// address is reported now.
func Open(ctx context.Context, servers []string, opts Options) (*Store, error) {
	s, err := New(servers, opts)
	if err != nil {
		return nil, err
	}
	var c *call
	err = storekit.Reach(ctx, s.opts.Package, servers, s.opts.Dial)
	if err == nil {
		c, err = s.sessionlessCall(ctx, "open "+strings.Join(servers, ","))
	}
	if err == nil {
		_, err = run(c, func(c *call) (struct{}, error) { return struct{}{}, c.catchUp(s) })
	}
	if err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// ParseURL reads a URL of a package into options, and returns its servers and its namespace, with a
// slash before it, or "". More are parameters of the package. It does no I/O.
func ParseURL(pkg, scheme, text string, o *Options, more storekit.Parameters) (servers []string, namespace string, err error) {
	// The servers have no default port for TLS; ZooKeeper's documentation has 2281.
	a, err := storekit.Form{Package: pkg, Scheme: scheme, Port: "2181", SecurePort: "2281"}.Parse(text)
	if err != nil {
		return nil, "", err
	}
	if a.User != nil {
		pass, both := a.User.Password()
		if !both {
			return nil, "", a.Errorf("the part of the URL before @ must be user:password; write %%25 for a %%, %%40 for an @, %%2F for a /")
		}
		if err := storekit.Part(pkg, "user and password", "Auth", &o.Auth, a.User.Username()+":"+pass); err != nil {
			return nil, "", err
		}
	}
	all := storekit.Parameters{
		"namespace": storekit.Text(&namespace), "tick_time": storekit.Option("TickTime", &o.TickTime, storekit.Duration),
		"min_ttl": storekit.Option("MinTTL", &o.MinTTL, storekit.Duration), "max_ttl": storekit.Option("MaxTTL", &o.MaxTTL, storekit.Duration),
	}
	maps.Copy(all, more)
	if err := a.ReadParameters(all); err != nil {
		return nil, "", err
	}
	if a.Secure {
		if o.Dial == nil {
			o.Dial = dialTCP
		}
		o.Dial = a.Dialer(o.Dial)
	}
	if namespace = cmp.Or(namespace, strings.TrimSuffix(a.Path, "/")); namespace != "" {
		namespace = "/" + namespace
	}
	return a.Hosts, namespace, nil
}
