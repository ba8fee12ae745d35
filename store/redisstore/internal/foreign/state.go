// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"strconv"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// The fields that fencelock adds to the hash of a lock.
const (
	dataField = "fencelock"
	keptField = "fencelock-kept"
)

// modeField is the field of an RReadWriteLock that reports which side of it is taken, and
// writeSuffix ends the field of a writer.
const (
	modeField   = "mode"
	writeSuffix = ":write"
)

// readState reads what the function state of lib.lua wrote: the holders of a lock, and when
// another attempt is worth making even if no message comes.
func (s *Store) readState(list []any) (holders []driver.Holder, pollAfter time.Duration) {
	r := rediscmd.Reader{Rest: list}
	ttl := r.Millis()
	now := r.Number()
	if ttl < 0 { // a key without a time to live: RLock.clearExpire, or another library
		ttl = 0
	}
	pairs, kept := rediscmd.Reader{Rest: r.List()}, rediscmd.Reader{Rest: r.List()}
	var fields []string
	var data []grantData // of each field, from its session
	var lock grantData   // of the holder of an RLock, which is alone
	readWrite := false
	for len(pairs.Rest) > 1 {
		field, value, own := pairs.Text(), pairs.Text(), parseData(kept.Text())
		switch field {
		case dataField:
			lock = parseData(value)
		case modeField:
			readWrite = true
		default:
			fields, data = append(fields, field), append(data, own)
		}
	}
	for i, field := range fields {
		d := data[i]
		if lock.ours {
			d = lock
		}
		h := d.holder(field, ttl, now)
		if !d.ours && s.opts.Kind == Plain {
			h.Record.Owner = field
		}
		if readWrite && !strings.HasSuffix(field, writeSuffix) {
			h.Mode = driver.Shared
		}
		holders = append(holders, h)
	}
	return holders, ttl
}

// grantData is what fencelock keeps of a lock that a Go process holds or keeps.
type grantData struct {
	ours   bool
	token  driver.Token
	since  int64 // µs
	record driver.Record
}

// parseData reads what take.lua and takerw.lua wrote.
func parseData(text string) grantData {
	words := strings.SplitN(text, " ", 5)
	if len(words) < 5 {
		return grantData{}
	}
	token, _ := strconv.ParseInt(words[0], 10, 64)
	since, _ := strconv.ParseInt(words[1], 10, 64)
	return grantData{true, driver.Token(token), since, rediscmd.RecordOf(words[4])}
}

// holder shows one field of a lock. Of a Java holder only its id is known: the client's UUID
// and the thread.
func (d grantData) holder(field string, endsIn time.Duration, now int64) driver.Holder {
	h := driver.Holder{Weight: 1, EndsIn: endsIn, Kept: field == keptField}
	h.Claim, _ = parseHolder(strings.TrimSuffix(field, writeSuffix))
	if !d.ours {
		h.Record.Owner = "redisson " + field
		return h
	}
	h.Token, h.Record = d.token, d.record
	h.Age = max(0, time.Duration(now-d.since)*time.Microsecond)
	return h
}
