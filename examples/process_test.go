// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"log"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
)

// process is a client as one process makes it, once, at its start. Several of them
// on one store play several machines.
func process(store driver.Store, owner string) *fencelock.Client {
	locks, err := fencelock.New(store, &fencelock.Options{Owner: owner})
	if err != nil {
		log.Fatal(err)
	}
	return locks
}
