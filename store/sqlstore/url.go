// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"errors"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storeurl"
)

func init() { driver.Register(opener, "postgres", "postgresql", "mysql", "mariadb") }

// opener is Open for driver.OpenStore. A caller that wants to read locks of a database on which they are
// unsafe, or to see which tables are to be created, is let in; a session is refused then.
func opener(ctx context.Context, url string, opts driver.OpenOptions) (driver.OpenedStore, error) {
	o := &Options{Warn: opts.Warn}
	if opts.Refused == nil {
		s, err := Open(ctx, url, o)
		if err != nil {
			return nil, err
		}
		return s, nil
	}
	t, err := parseURL(url, o)
	if err != nil {
		return nil, err
	}
	s, err := t.connect(ctx)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// errMisplaced is for a URL of which the password is not known.
var errMisplaced = errors.New("sqlstore: the URL has an @ after the host; in a password write %2F for /, %3F for ? and %23 for #, elsewhere %40 for @")

// ours are the parameters of a URL that the store reads. The rest is the driver's.
func ours(o *Options, migrate *bool) storeurl.Parameters {
	return storeurl.Parameters{
		"namespace": storeurl.Option("Prefix", &o.Prefix, prefix), "grace": storeurl.Option("Grace", &o.Grace, storeurl.Bool),
		"max_ttl": storeurl.Option("MaxTTL", &o.MaxTTL, storeurl.Duration), "accept": storeurl.Option("Accept", &o.Accept, storeurl.List),
		"migrate": storeurl.Bool(migrate),
	}
}

// prefix reads a namespace as the prefix of the tables.
func prefix(to *string) func(string) error {
	return func(v string) error {
		if v != "" {
			*to = strings.ReplaceAll(v, "-", "_") + "_"
		}
		return nil
	}
}

// readURL takes our parameters out of a URL and adds them to the options. It does no I/O.
func readURL(rawURL string, opts *Options) (rest string, o Options, migrate bool, err error) {
	if storeurl.Misplaced(rawURL) {
		return "", o, false, errMisplaced
	}
	if opts != nil {
		o = *opts
	}
	rest, err = ours(&o, &migrate).Split("sqlstore", rawURL)
	return rest, o, migrate, err
}

// meantIn is a hint for the first parameter of a URL that is nearly one of ours, or "".
func meantIn(rawURL string) string {
	_, query, _ := strings.Cut(rawURL, "?")
	known := ours(&Options{}, new(bool))
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		if meant := known.Meant(name); meant != "" {
			return "; did you mean " + meant + "?"
		}
	}
	return ""
}
