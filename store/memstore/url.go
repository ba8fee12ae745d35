// SPDX-License-Identifier: Apache-2.0

package memstore

import (
	"context"
	"errors"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
)

func init() { driver.Register(storekit.Opener(Open), driver.Variants("mem")...) }

// Open returns an empty store with the settings of a URL and of opts, which must not
// contradict each other. It is there so that a program that takes any store by its URL can
// be tested without a server.
//
//	mem://[?parameters]
//
// The parameters are grace and max_ttl, as in Options, and namespace, which is there
// for programs that add one to every URL: two stores share nothing in any case.
func Open(_ context.Context, url string, opts *Options) (*Store, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	rest, query, _ := strings.Cut(url, "?")
	if rest != "mem://" {
		return nil, errors.New("memstore: the URL is mem://, with parameters after a ? (it is not shown, it may hold a password)")
	}
	namespace := ""
	err := storekit.Parameters{
		"namespace": storekit.Text(&namespace), "grace": storekit.Option("Grace", &o.Grace, storekit.Bool), "max_ttl": storekit.Option("MaxTTL", &o.MaxTTL, storekit.Duration),
	}.Read("memstore", query)
	if err != nil {
		return nil, err
	}
	return New(&o), nil
}

// Check returns one finding: the store excludes no other process.
func (s *Store) Check(context.Context) ([]driver.Finding, error) {
	return []driver.Finding{{Severity: driver.Danger, Code: "one-process", Reason: "mem:// is the memory of this process: no other process sees its locks",
		Fix: "use a server, for example redis://localhost:6379"}}, nil
}

// Close does nothing: a store in memory has no connection. It is there so that every
// store can be closed in the same way.
func (s *Store) Close() error { return nil }
