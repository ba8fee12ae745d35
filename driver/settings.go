// SPDX-License-Identifier: Apache-2.0

package driver

import "context"

// Setting is a property of a namespace that all its processes obey, whatever each of them
// asks for.
type Setting struct {
	// Name is the parameter of the URL that asks for it, such as "grace".
	Name string
	// Value is what the namespace has.
	Value string
	// Asked is what this process asks for. It is empty if it asks for nothing.
	Asked string
	// Change says in a sentence how the value is changed, and what cannot be done while
	// processes use the namespace.
	Change string
}

// Configurer is implemented by a store whose namespaces have settings.
//
// A process that asks for a stronger promise than the namespace has makes the namespace
// stronger when it opens a session. A weaker promise needs Configure.
type Configurer interface {
	// Settings returns the settings of the namespace. It changes nothing. It returns none if no
	// process has used the namespace yet.
	Settings(ctx context.Context) ([]Setting, error)

	// Configure changes one setting. It must return an error that wraps ErrRefused, and says
	// what to do first, if the change could break what a lease that is held was promised.
	Configure(ctx context.Context, name, value string) error

	// Begin sets up a namespace as new: without a grace period, because the caller knows that
	// no process has ever held a lock of it. It must return an error that wraps ErrRefused if
	// the namespace is set up.
	Begin(ctx context.Context) error
}
