// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// engine opens the stores of some schemes. An engine is one file that adds itself
// to engines.
type engine struct {
	schemes []string
	// form is what a URL looks like, for help; note is one line about it.
	form, note string
	open       func(ctx context.Context, url string, s settings) (*opened, error)
}

// settings are the parameters of a URL that mean the same for every engine. They
// are taken out of it before the engine's own driver sees it.
type settings struct {
	namespace string
	grace     bool
	maxTTL    time.Duration
	buckets   int
	accept    []string     // codes of findings that are known
	warn      func(string) // is told what is wrong with the servers
}

// opened is a store that was opened.
type opened struct {
	driver.Store
	close func() error
	// check asks the engine what makes it unfit; nil if its store cannot tell.
	check func(ctx context.Context) ([]driver.Finding, error)
	// graceFix says how to make it keep locks over a loss of memory, if it can.
	graceFix string
}

// addGrace is the graceFix of engines that have grace as a setting.
const addGrace = "add grace=true to the store's URL, for everybody who shares the namespace"

// engines are all engines by the first scheme of each.
var engines = map[string]*engine{}

// register adds an engine.
func register(e *engine) *engine {
	engines[e.schemes[0]] = e
	return e
}

// openStore opens the store at a URL. No error shows the URL: it may hold a
// password.
func openStore(ctx context.Context, raw, namespace string, warn func(string)) (*opened, error) {
	scheme, _, ok := strings.Cut(raw, "://")
	if raw == "" {
		return nil, usage("which store? Set FENCELOCK_STORE or give --store, for example redis://localhost:6379 (fencelock help stores)")
	}
	e := engineOf(scheme)
	if !ok || e == nil {
		return nil, usage("the store's URL does not begin with a scheme that is known; there are %s", schemes())
	}
	rest, s, err := splitSettings(raw)
	if err != nil {
		return nil, err
	}
	s.warn = warn
	if namespace != "" {
		s.namespace = namespace
	}
	return e.open(ctx, rest, s)
}

func engineOf(scheme string) *engine {
	for _, e := range engines {
		if slices.Contains(e.schemes, scheme) {
			return e
		}
	}
	return nil
}

// schemes lists all that can be used.
func schemes() string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		for _, s := range engines[name].schemes {
			list = append(list, s+"://")
		}
	}
	return strings.Join(list, ", ")
}

// splitSettings takes our parameters out of a URL.
func splitSettings(raw string) (string, settings, error) {
	base, query, has := strings.Cut(raw, "?")
	var s settings
	if !has {
		return raw, s, nil
	}
	var rest []string
	for pair := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(pair, "=")
		value, err := url.QueryUnescape(value)
		if err == nil {
			switch key {
			case "namespace":
				s.namespace = value
			case "grace":
				s.grace, err = strconv.ParseBool(value)
			case "max_ttl":
				s.maxTTL, err = time.ParseDuration(value)
			case "buckets":
				s.buckets, err = strconv.Atoi(value)
			case "accept":
				s.accept = strings.Split(value, ",")
			default:
				rest = append(rest, pair)
			}
		}
		if err != nil {
			return "", s, usage("parameter %s in the store's URL: write true or false, 30s or 1m, or a number", key)
		}
	}
	if len(rest) == 0 {
		return base, s, nil
	}
	return base + "?" + strings.Join(rest, "&"), s, nil
}

// storesHelp explains the URLs.
func storesHelp() string {
	var b strings.Builder
	b.WriteString(`A store is where locks are kept: a server that all of you reach. It is a URL.

`)
	for _, name := range slices.Sorted(maps.Keys(engines)) {
		e := engines[name]
		fmt.Fprintf(&b, "  %s\n      %s\n", strings.ReplaceAll(e.form, "\n", "\n  "), e.note)
	}
	b.WriteString(`
It is taken from the first of these that is there:

  --store URL              every user of the machine can read a command line:
                           no passwords here
  FENCELOCK_STORE          the environment
  FENCELOCK_CONFIG         a file with a line "store = URL"; by default
                           fencelock/config in the user's configuration folder
                           ($XDG_CONFIG_HOME or ~/.config)

Parameters, after a ? and joined by &. All who share locks must use the same, and a
store that finds others refuses; an engine that has no use for one refuses it. Others go
to the engine's driver.

  namespace=NAME   locks of different namespaces have nothing to do with each other
  grace=true       after a crash or failover of the server nothing new is granted
                   until every earlier holder must have ended; costs max_ttl then
                   (Redis, quorum, databases)
  max_ttl=1m       the longest --ttl that may be used (not memcached)
  buckets=N        over how many slots of a cluster names are spread (Redis)
  migrate=true     create the tables if they are missing (databases)
  accept=CODE,...  findings of fencelock doctor that are known and accepted: without
                   it a server on which locks are unsafe is refused (Redis, quorum,
                   databases; the others refuse nothing)
`)
	return b.String()
}
