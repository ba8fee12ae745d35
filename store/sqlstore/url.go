// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"context"
	"fmt"
	"strings"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/driver/storekit"
)

func init() {
	driver.Register(opener, append(driver.Variants("postgres"), driver.Variants("mysql")...)...)
}

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

// ours are the parameters of a URL that the store reads. The rest is the driver's.
func ours(o *Options, migrate *bool) storekit.Parameters {
	return storekit.Parameters{
		"namespace": storekit.Option("Namespace", &o.Namespace, storekit.Text), "grace": storekit.Option("Grace", &o.Grace, storekit.Bool),
		"max_ttl": storekit.Option("MaxTTL", &o.MaxTTL, storekit.Duration), "accept": storekit.Option("Accept", &o.Accept, storekit.List),
		"migrate": storekit.Bool(migrate),
	}
}

// readURL takes our parameters out of a URL and adds them to the options. It does no I/O.
func readURL(rawURL string, opts *Options) (rest string, o Options, migrate bool, err error) {
	if storekit.Misplaced(rawURL) {
		return "", o, false, fmt.Errorf("sqlstore: %w", storekit.ErrMisplaced)
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
