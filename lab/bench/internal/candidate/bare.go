// SPDX-License-Identifier: Apache-2.0

package candidate

import (
	"errors"
	"strconv"
	"sync/atomic"
	"time"
)

// The bare pair is what every lock on Redis at least does: SET NX PX to take it,
// and a script that compares and deletes to give it back. It has no waiting, no
// renewal, no token and no word when it is lost. It gives the
// context it gets to the client library, and what was cut short stays behind.

// bareTTL is long: nothing here renews.
const bareTTL = time.Hour

// compareAndDelete gives a lock back if the value is still ours.
const compareAndDelete = `if redis.call("GET",KEYS[1]) == ARGV[1] then return redis.call("DEL",KEYS[1]) end return 0`

const bareSettings = "SET NX PX and a script that compares and deletes; no waiting, no renewal"

var (
	errTaken = errors.New("the name is taken; the bare pair does not wait")
	errGone  = errors.New("the key was not ours any more")
)

// values makes a value for each acquisition, so that only its owner deletes it.
var values atomic.Uint64

func nextValue() string { return strconv.FormatUint(values.Add(1), 36) }
