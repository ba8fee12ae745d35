// SPDX-License-Identifier: Apache-2.0

package sqlstore

import (
	"database/sql"
	"sync"
)

// reserved counts the connections of each handle on which claims of stores wait. Several stores may
// share a handle, so the count is that of the handle.
var reserved = struct {
	sync.Mutex
	of map[*sql.DB]int
}{of: map[*sql.DB]int{}}

// mayReserve reports whether one more connection may be kept, by the limit of the handle (0
// for none) and how many are kept: never more than half. A handle without a free connection
// cannot keep the sessions alive.
func mayReserve(limit, kept int) bool { return limit <= 0 || 2*(kept+1) <= limit }

// reserve asks to keep one more connection of a handle.
func reserve(db *sql.DB) bool {
	limit := db.Stats().MaxOpenConnections
	reserved.Lock()
	defer reserved.Unlock()
	if !mayReserve(limit, reserved.of[db]) {
		return false
	}
	reserved.of[db]++
	return true
}

// unreserve gives a connection back.
func unreserve(db *sql.DB) {
	reserved.Lock()
	defer reserved.Unlock()
	if reserved.of[db]--; reserved.of[db] == 0 {
		delete(reserved.of, db)
	}
}
