// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"errors"
	"fmt"
	"reflect"
)

// Option returns a function that reads a parameter into the field of the store's Options
// that has the same meaning. It is an error if the field is already set to another value;
// see the package comment.
func Option[V any](field string, to *V, read func(to *V) func(string) error) func(string) error {
	return func(value string) error {
		var v V
		if err := read(&v)(value); err != nil {
			return err
		}
		return set(field, to, v)
	}
}

// Part sets a field of the store's Options from another part of the URL, such as its path
// or its user. As with Option, it is an error if the field is already set to another value.
func Part[V any](pkg, part, field string, to *V, v V) error {
	if set(field, to, v) != nil {
		return fmt.Errorf("%s: the %s in the URL and Options.%s differ; leave one of them out", pkg, part, field)
	}
	return nil
}

// differs is the error of a setting that the caller has set to another value.
type differs struct{ field string }

// Error implements error.
func (d *differs) Error() string { return "differs from Options." + d.field }

// badValue is the error of a value that is not of the parameter's kind. It does not quote
// the value, which may be a secret that was put in the wrong place.
type badValue struct{ takes string }

// Error implements error.
func (b *badValue) Error() string { return "takes " + b.takes }

// set sets a field that is not set, or has the same value.
func set[V any](field string, to *V, v V) error {
	if !reflect.ValueOf(to).Elem().IsZero() && !reflect.DeepEqual(*to, v) {
		return &differs{field}
	}
	*to = v
	return nil
}

// unread is the error of a parameter whose value was not accepted. It does not show the value.
func unread(pkg, name string, err error) error {
	var d *differs
	if errors.As(err, &d) {
		return fmt.Errorf("%s: the parameter %s in the URL and Options.%s differ; leave one of them out", pkg, name, d.field)
	}
	var bad *badValue
	if errors.As(err, &bad) {
		return fmt.Errorf("%s: the parameter %s in the URL takes %s", pkg, name, bad.takes)
	}
	return fmt.Errorf("%s: the parameter %s in the URL has a value that it does not take", pkg, name)
}
