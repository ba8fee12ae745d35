// SPDX-License-Identifier: Apache-2.0

package servers

import (
	"fmt"
	"os"
	"testing"
)

func TestExampleFindsItsServer(t *testing.T) {
	Example(t, func() { fmt.Println("at", os.Getenv("ANY_URL")) }, "ANY_URL", "any://a", "at any://a\n")
	if got := printed(t, func() { fmt.Print("another") }); got != "another" {
		t.Errorf("got %q", got)
	}
}
