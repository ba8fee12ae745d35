// SPDX-License-Identifier: Apache-2.0

package native

import (
	"errors"
	"fmt"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// verdict turns the first word of a reply into an error.
func verdict(reply []any) error {
	if len(reply) == 0 {
		return errors.New("redisstore: the script answered nothing")
	}
	switch word, _ := reply[0].(string); word {
	case "GONE":
		return fmt.Errorf("redisstore: %w", driver.ErrGone)
	case "RESET":
		return fmt.Errorf("redisstore: %w", driver.ErrReset)
	case "VACANT":
		return errVacant
	case "REFUSED":
		r := rediscmd.Reader{Rest: reply[1:]}
		return &layoutError{theirs: r.Text()}
	}
	return nil
}
