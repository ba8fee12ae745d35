// SPDX-License-Identifier: Apache-2.0

package pgxfence

import (
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// TestRejectionIsReadFromTheError: in any language of the server, and no other error is one.
func TestRejectionIsReadFromTheError(t *testing.T) {
	given := fence.Mark{Lock: "a", Token: 512, Holder: "bob"}
	for _, tt := range []struct {
		code, message string
		stale         bool
		token         fencelock.Token // of the newer mark, 0: it is not named
		holder        string
	}{
		{"22P02", `invalid input syntax for type bigint: "` + newer + `768 ann@host:1;"`, true, 768, "ann@host:1"},
		{"22P02", `ungültige Eingabesyntax für Typ bigint: »` + newer + `768 "ann"; at home;«`, true, 768, `"ann"; at home`},
		{"22P02", `"` + newer + `;"`, true, 0, ""},        // it waited for a row that its view does not have
		{"22P02", `"` + newer + `256 bob;"`, true, 0, ""}, // the same, with an older state of it
		{"22P02", `"` + newer + `512 bob;"`, true, 0, ""},
		{"22P02", `invalid input syntax for type bigint: "x"`, false, 0, ""},
		{"42P01", newer, false, 0, ""},
	} {
		err := rejection(fmt.Errorf("wrapped: %w", &pgconn.PgError{Code: tt.code, Message: tt.message}), given)
		var stale *fence.StaleError
		if errors.As(err, &stale) != tt.stale {
			t.Errorf("%s %s: got %v", tt.code, tt.message, err)
			continue
		}
		if tt.stale && (stale.Given != given || stale.Newer.Token != tt.token || stale.Newer.Holder != tt.holder) {
			t.Errorf("%s: got %+v", tt.message, stale)
		}
	}
	if err := rejection(errors.New(newer), given); err != nil {
		t.Errorf("not an error of the server: got %v", err)
	}
}
