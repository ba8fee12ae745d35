// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/go-sql-driver/mysql"
	"github.com/redis/go-redis/v9"
)

// silent is where the drivers of the servers write. They log on stderr by themselves,
// whatever -q says and over the screen of top; all that matters in it comes back as an
// error, which says it once and without an address book.
type silent struct{}

// Printf implements the logger of go-redis.
func (silent) Printf(context.Context, string, ...any) {}

// Print implements the logger of the MySQL driver.
func (silent) Print(...any) {}

// silenceDrivers is called before anything else.
func silenceDrivers() {
	redis.SetLogger(silent{})
	_ = mysql.SetLogger(silent{}) // fails for nil only
}
