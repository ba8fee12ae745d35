// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"strings"
	"testing"
)

// FuzzURL: whatever a URL looks like, reading it does not panic, and no error shows what
// comes before its last @: that may be a password.
func FuzzURL(f *testing.F) {
	const secret = "hunter2"
	f.Fuzz(func(t *testing.T, before, after, tail string) {
		for _, file := range []string{"tls_", "ssl", "passfile", "service", "krb"} { // these name files to read
			if strings.Contains(strings.ToLower(before+after+tail), file) {
				return
			}
		}
		for _, scheme := range []string{"postgres", "mysql"} {
			text := scheme + "://u:" + before + secret + after + "@h" + tail
			err := func() error {
				rest, _, _, err := readURL(text, nil)
				if err != nil {
					return err
				}
				db, _, err := connect(rest)
				if err == nil {
					err = db.Close()
				}
				return err
			}()
			if err != nil && !strings.Contains(tail, secret) && strings.Contains(err.Error(), secret) {
				t.Errorf("%q: the error shows the password: %v", text, err)
			}
		}
	})
}

// FuzzHints: the column of hints is read whatever it holds, and what was read is written so
// that it is read again.
func FuzzHints(f *testing.F) {
	f.Add("[\"x\",7]\n[\"y\",8]\n")
	f.Fuzz(func(t *testing.T, column string) {
		h := readHints(column)
		again := readHints(h.text())
		if len(again) != len(h) {
			t.Errorf("%q: %v became %v", column, h, again)
		}
	})
}
