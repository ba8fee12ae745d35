// SPDX-License-Identifier: Apache-2.0

package driver_test

import (
	"testing"

	"github.com/fencelock/fencelock/driver"
)

// Grants.
var (
	x       = driver.Grant{Mode: driver.Exclusive, Weight: 1}
	xMe     = driver.Grant{Mode: driver.Exclusive, Weight: 1, Reentry: "me"}
	xMeKept = driver.Grant{Mode: driver.Exclusive, Weight: 1, Reentry: "me", Kept: true}
	rMe     = driver.Grant{Mode: driver.Shared, Weight: 1, Reentry: "me"}
	rKept   = driver.Grant{Mode: driver.Shared, Weight: 1, Kept: true}
)

func r(weight int64) driver.Grant { return driver.Grant{Mode: driver.Shared, Weight: weight} }

// Terms.
var (
	writer   = driver.Terms{Mode: driver.Exclusive, Weight: 1}
	me       = driver.Terms{Mode: driver.Exclusive, Weight: 1, Reentry: "me"}
	you      = driver.Terms{Mode: driver.Exclusive, Weight: 1, Reentry: "you"}
	reader   = driver.Terms{Mode: driver.Shared, Weight: 1}
	readerMe = driver.Terms{Mode: driver.Shared, Weight: 1, Reentry: "me"}
)

func permits(weight, limit int64) driver.Terms {
	return driver.Terms{Mode: driver.Shared, Weight: weight, Limit: limit}
}

// admissions are claims beside grants, and whether each fits and joins.
var admissions = []struct {
	name        string
	grants      []driver.Grant
	want        driver.Terms
	stored      int64
	fits, joins bool
}{
	{name: "exclusive, free", want: writer, fits: true},
	{name: "exclusive beside exclusive", grants: []driver.Grant{x}, want: writer},
	{name: "exclusive beside shared", grants: []driver.Grant{r(1)}, want: writer},
	{name: "exclusive beside a kept one", grants: []driver.Grant{xMeKept}, want: writer},

	{name: "reentry, free", want: me, fits: true},
	{name: "same reentry", grants: []driver.Grant{xMe}, want: me, fits: true, joins: true},
	{name: "same reentry, third", grants: []driver.Grant{xMe, xMe}, want: me, fits: true, joins: true},
	{name: "another reentry", grants: []driver.Grant{xMe}, want: you},
	{name: "reentry beside none", grants: []driver.Grant{x}, want: me},
	{name: "none beside a reentry", grants: []driver.Grant{xMe}, want: writer},
	{name: "same reentry, kept", grants: []driver.Grant{xMeKept}, want: me},
	{name: "same reentry, one of two kept", grants: []driver.Grant{xMe, xMeKept}, want: me},
	{name: "same reentry, all shared", grants: []driver.Grant{rMe}, want: me},
	{name: "same reentry, one downgraded", grants: []driver.Grant{rMe, xMe}, want: me, fits: true, joins: true},
	{name: "same reentry, one downgraded without it", grants: []driver.Grant{r(1), xMe}, want: me},
	{name: "shared with the reentry of an exclusive", grants: []driver.Grant{xMe}, want: readerMe},

	{name: "shared, free", want: reader, fits: true},
	{name: "shared beside shared", grants: []driver.Grant{r(1), r(7)}, want: reader, fits: true},
	{name: "shared beside a kept shared", grants: []driver.Grant{rKept}, want: reader, fits: true},
	{name: "shared beside exclusive", grants: []driver.Grant{x}, want: reader},
	{name: "shared beside shared and exclusive", grants: []driver.Grant{r(1), x}, want: reader},
	{name: "shared beside a kept exclusive", grants: []driver.Grant{xMeKept}, want: reader},
	{name: "no limit of its own ignores the stored one", grants: []driver.Grant{r(1), r(1)}, want: reader, stored: 1, fits: true},

	{name: "within the limit", grants: []driver.Grant{r(2)}, want: permits(1, 3), fits: true},
	{name: "over the limit", grants: []driver.Grant{r(2)}, want: permits(2, 3)},
	{name: "a kept one uses the limit", grants: []driver.Grant{r(2), rKept}, want: permits(1, 3)},
	{name: "the stored limit is lower", grants: []driver.Grant{r(1)}, want: permits(1, 3), stored: 1},
	{name: "the stored limit is higher", grants: []driver.Grant{r(3)}, want: permits(2, 3), stored: 5, fits: true},
	{name: "heavier than the stored limit, free", want: permits(3, 3), stored: 2, fits: true},
	{name: "heavier than the stored limit, taken", grants: []driver.Grant{r(1)}, want: permits(3, 3), stored: 2},
	{name: "a holder heavier than the limit takes all of it", grants: []driver.Grant{r(9)}, want: permits(1, 3)},
	{name: "no more than all of it", grants: []driver.Grant{r(9)}, want: permits(1, 3), stored: 10, fits: true},
}

func TestAdmission(t *testing.T) {
	for _, c := range admissions {
		t.Run(c.name, func(t *testing.T) {
			if got := driver.Fits(c.grants, &c.want, c.stored); got != c.fits {
				t.Errorf("Fits is %v, want %v", got, c.fits)
			}
			if got := driver.Joins(c.grants, &c.want); got != c.joins {
				t.Errorf("Joins is %v, want %v", got, c.joins)
			}
		})
	}
}
