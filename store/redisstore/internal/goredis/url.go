// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver/storekit"
)

// Form is what the URLs of a store look like.
type Form struct {
	// Package begins errors.
	Package string
	// Scheme is the scheme for one server: "redis". With an s behind it everything goes over TLS,
	// and -sentinel or -cluster may follow.
	Scheme string
	// Several is set if Scheme may have several hosts.
	Several bool
	// More are the parameters of the store.
	More storekit.Parameters
}

// Target is a URL that was understood.
type Target struct {
	*storekit.Address // its Kind is "", "sentinel" or "cluster"
	Pass              string
	DB                int
	Master            string
	Sentinel          struct{ User, Pass string }
	ClientName        string
	Dial, Read        time.Duration
	PoolSize          int
}

// Parse reads a URL of the grammar that redisstore.Open documents.
func Parse(text string, form Form) (*Target, error) {
	kinds := map[string]string{"sentinel": "26379", "cluster": "6379"}
	a, err := storekit.Form{Package: form.Package, Scheme: form.Scheme, Port: "6379", Kinds: kinds}.Parse(text)
	if err != nil {
		return nil, err
	}
	t := &Target{Address: a}
	t.Pass, _ = a.User.Password()
	if len(t.Hosts) > 1 && t.Kind == "" && !form.Several {
		return nil, t.Errorf("%[1]s:// takes one host; for several use %[1]s-sentinel:// or %[1]s-cluster://", t.Scheme)
	}
	if err := t.setPath(t.Path); err != nil {
		return nil, err
	}
	all := storekit.Parameters{
		"client_name": storekit.Text(&t.ClientName), "sentinel_user": storekit.Text(&t.Sentinel.User), "sentinel_password": storekit.Text(&t.Sentinel.Pass),
		"dial_timeout": storekit.Duration(&t.Dial), "read_timeout": storekit.Duration(&t.Read), "pool_size": storekit.Number(&t.PoolSize),
	}
	maps.Copy(all, form.More)
	return t, t.ReadParameters(all)
}

// setPath reads /db, and /master/db of a Sentinel URL.
func (t *Target) setPath(path string) error {
	if t.Kind == "sentinel" {
		t.Master, path, _ = strings.Cut(path, "/")
		if t.Master == "" {
			return t.Errorf("a Sentinel URL names the master, as in %s-sentinel://host:26379/mymaster", t.Scheme)
		}
	}
	if path == "" {
		return nil
	}
	n, err := strconv.Atoi(path)
	if err != nil || n < 0 {
		return t.Errorf("the path of the URL must be the number of a database, as in %s://host:6379/0", t.Scheme)
	}
	if t.Kind == "cluster" && n != 0 {
		return t.Errorf("a cluster has database 0 only; remove the path")
	}
	t.DB = n
	return nil
}
