// SPDX-License-Identifier: Apache-2.0

package zkstore

import (
	"strings"
	"testing"

	"github.com/fencelock/fencelock/store/zkstore/internal/treestore"
)

// FuzzURL: whatever a URL looks like, reading it does not panic, and no error shows what
// comes before its last @: that may be a password.
func FuzzURL(f *testing.F) {
	const secret = "hunter2"
	f.Fuzz(func(t *testing.T, before, after, tail string) {
		for _, scheme := range []string{"zk"} {
			text := scheme + "://u:" + before + secret + after + "@h" + tail
			err := func() error {
				servers, opts, err := parseURL(text, nil)
				if err == nil {
					_, err = treestore.New(servers, opts)
				}
				return err
			}()
			if err != nil && !strings.Contains(tail, secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows the password: %v", text, err)
			}
		}
	})
}
