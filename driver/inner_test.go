// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"errors"
	"fmt"
	"testing"
)

func TestInnerHasNoPackageNames(t *testing.T) {
	for text, want := range map[string]string{
		"redisstore: attempt: outcome unknown":              "attempt: outcome unknown",
		"fencelock: lock \"a\": quorum: redisstore: gone":   "lock \"a\": gone",
		"node a: zkstore: gone\nnode b: zkstore: gone":      "node a: gone\nnode b: gone",
		"zkstore: gone\nzkstore: gone":                      "gone\ngone",
		"yourstore: gone":                                   "gone",
		"open: yourstore: gone":                             "open: yourstore: gone",
		"sqlstore: open: driver: bad connection":            "open: driver: bad connection",
		"etcdstore: restore: the truststore: is redisstore": "restore: the truststore: is redisstore",
		"refused":            "refused",
		"a quorum: of three": "a quorum: of three",
	} {
		cause := errors.New(text)
		err := Inner(fmt.Errorf("%w", cause))
		if err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("got %q, want %q", err, want)
		}
	}
	if Inner(nil) != nil {
		t.Error("nil is an error")
	}
}
