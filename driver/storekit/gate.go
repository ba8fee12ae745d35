// SPDX-License-Identifier: Apache-2.0

package storekit

import (
	"fmt"
	"slices"
	"strings"

	"github.com/fencelock/fencelock/driver"
)

// Accepts returns an error if Options.Accept has a code that is not among the codes of a
// store's findings: a misspelled code would accept nothing.
func Accepts(accept, codes []string) error {
	for _, code := range accept {
		if slices.Contains(codes, code) {
			continue
		}
		if meant := driver.Closest(code, codes...); meant != "" {
			return fmt.Errorf("Options.Accept has %q, which is not the code of a finding; did you mean %s?", code, meant)
		}
		return fmt.Errorf("Options.Accept has %q, which is not the code of a finding; there are %s", code, strings.Join(codes, ", "))
	}
	return nil
}
