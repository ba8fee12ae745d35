// SPDX-License-Identifier: Apache-2.0

package driver

import "strconv"

// TokenStep is the distance between two tokens of a store. A store hands out
// multiples of TokenStep; the 255 numbers above each are the core's, which
// gives a fresh one to every local handoff of the same claim (clause T3).
const TokenStep = 256

// Token is a fencing token. Tokens of one lock name are unique per acquisition and strictly
// increasing, and every token is positive, so it fits a signed 64-bit column.
type Token int64

// Base returns the token the store gave for the claim t belongs to: t without
// the local index the core added.
func (t Token) Base() Token { return t &^ (TokenStep - 1) }

// String returns the token as a decimal number.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }
