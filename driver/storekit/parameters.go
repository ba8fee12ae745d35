// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// Common are the parameters that mean the same in every store that has them.
//
//	namespace  locks of different namespaces share nothing
//	grace      after a loss of data grant nothing until every earlier session must have ended
//	max_ttl    the longest TTL of a session
//	buckets    over how many slots of a cluster names are spread
//	accept     codes of findings that are known and accepted, with commas between
//	migrate    create the tables if they are missing
var Common = []string{"namespace", "grace", "max_ttl", "buckets", "accept", "migrate"}

// Parameters are the parameters that a store knows, by name, each with a function that
// reads a value. What the function returns as an error is not shown: it may quote the value.
type Parameters map[string]func(value string) error

// Text returns a function that reads any text into to.
func Text(to *string) func(string) error {
	return func(v string) error { *to = v; return nil }
}

// Duration returns a function that reads a time into to, as time.ParseDuration does.
func Duration(to *time.Duration) func(string) error {
	return func(v string) (err error) {
		if *to, err = time.ParseDuration(v); err != nil {
			return &badValue{"a time with its unit, such as 500ms or 30s"}
		}
		return nil
	}
}

// Number returns a function that reads a whole number into to.
func Number(to *int) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.Atoi(v); err != nil {
			return &badValue{"a whole number"}
		}
		return nil
	}
}

// Bool returns a function that reads true or false into to.
func Bool(to *bool) func(string) error {
	return func(v string) (err error) {
		if *to, err = strconv.ParseBool(v); err != nil {
			return &badValue{"true or false"}
		}
		return nil
	}
}

// List returns a function that reads words with commas between them into to.
func List(to *[]string) func(string) error {
	return func(v string) error { *to = strings.Split(v, ","); return nil }
}

// Read reads a query, which is the part of a URL after the question mark. A parameter
// that is not known is an error, with the one that was probably meant, and so is one with two values: the
// first would win without a word. Errors begin with the name of the store's package.
func (p Parameters) Read(pkg, query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return errors.New(pkg + ": the part of the URL after ? is not name=value&name=value")
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		read := p[name]
		if read == nil {
			return p.unknown(pkg, name)
		}
		if len(slices.Compact(values[name])) > 1 {
			return fmt.Errorf("%s: the URL has the parameter %s twice, with different values; leave one of them out", pkg, name)
		}
		if err := read(values.Get(name)); err != nil {
			return unread(pkg, name, err)
		}
	}
	return nil
}

// Split reads the known parameters and the Common ones, and returns the URL without them,
// for a library that has its own parameters.
func (p Parameters) Split(pkg, text string) (rest string, err error) {
	base, query, _ := strings.Cut(text, "?")
	var ours, theirs []string
	for pair := range strings.SplitSeq(query, "&") {
		name, _, _ := strings.Cut(pair, "=")
		switch {
		case p[name] != nil || slices.Contains(Common, name):
			ours = append(ours, pair)
		case pair != "":
			theirs = append(theirs, pair)
		}
	}
	if err := p.Read(pkg, strings.Join(ours, "&")); err != nil {
		return "", err
	}
	if len(theirs) == 0 {
		return base, nil
	}
	return base + "?" + strings.Join(theirs, "&"), nil
}

// unknown names the parameter that was probably meant.
func (p Parameters) unknown(pkg, name string) error {
	known := strings.Join(slices.Sorted(maps.Keys(p)), ", ")
	if slices.Contains(Common, name) {
		return fmt.Errorf("%s: the parameter %s in the URL does nothing in this store; there are %s", pkg, name, known)
	}
	if !named(name) {
		return fmt.Errorf("%s: the URL has a parameter that is unknown; there are %s", pkg, known)
	}
	if meant := p.Meant(name); meant != "" {
		return fmt.Errorf("%s: the URL has the unknown parameter %q; did you mean %s?", pkg, name, meant)
	}
	return fmt.Errorf("%s: the URL has the unknown parameter %q; there are %s", pkg, name, known)
}

// Meant returns the known parameter that a misspelled name probably stands for, or "".
func (p Parameters) Meant(name string) string {
	if !named(name) {
		return ""
	}
	return driver.Closest(name, slices.Sorted(maps.Keys(p))...)
}

// named reports whether a text looks like the name of a parameter, so that an error may
// show it. Other texts may be a part of a password.
func named(text string) bool {
	return len(text) <= 24 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz_") == ""
}
