// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"fmt"

	"github.com/fencelock/fencelock/driver"
)

// tokenStep is the distance of the tokens of two neighboring transactions. It is
// two steps of the contract: the one in the middle is for Break, whose fence must
// lie above a holder and below the next in the queue, whose claims may be neighbors.
const tokenStep = 2 * driver.TokenStep

// maxZxid is the first transaction whose token does not fit. The upper half of a
// zxid counts the leaders an ensemble has had, the lower half what each has done,
// so it is reached with the 4,194,304th leader: after a year and four months of
// one election every ten seconds.
const maxZxid = 1 << 54

// tokenOf returns the token of a claim created by a transaction. The error has no package name.
func tokenOf(czxid int64) (driver.Token, error) {
	if czxid <= 0 || czxid >= maxZxid {
		return 0, fmt.Errorf("the transaction id %#x is too high for a token of 63 bits; restore the data into a fresh ensemble, and raise the fences at the resources: %w", czxid, driver.ErrRefused)
	}
	return driver.Token(czxid * tokenStep), nil
}

// fenceBelow returns a token above every claim that came before the one created by
// czxid, and below that one's.
func fenceBelow(czxid int64) driver.Token {
	return driver.Token(czxid*tokenStep) - driver.TokenStep
}

// fenceAbove returns a token above every claim created up to zxid, and below every
// later one's.
func fenceAbove(zxid int64) driver.Token {
	return driver.Token(zxid*tokenStep) + driver.TokenStep
}
