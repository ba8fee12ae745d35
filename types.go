// SPDX-License-Identifier: Apache-2.0

package fencelock

import "github.com/fencelock/fencelock/driver"

// Token is a fencing token: unique per acquisition and strictly increasing per
// lock name. Give it to the resource the lock protects, which must refuse a
// token older than the newest it has seen. It fits a signed 64-bit column.
type Token = driver.Token

// Record is what a client writes about itself into its claim, for people.
type Record = driver.Record

// Holder is one holder of a lock as the store sees it; [driver.Holder] has its fields.
type Holder = driver.Holder

// Waiter is one claim that waits for a lock; [driver.Waiter] has its fields.
type Waiter = driver.Waiter

// Status is a lock as the store sees it; [driver.Status] has its fields.
type Status = driver.Status
