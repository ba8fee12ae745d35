// SPDX-License-Identifier: Apache-2.0

package k8slock

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"time"

	"github.com/fencelock/fencelock"
)

// identityLabel is the label of a holder that has its identity.
const identityLabel = "identity"

// record is resourcelock.LeaderElectionRecord, as far as it is used here.
type record struct {
	Holder      string    `json:"holderIdentity"`
	Seconds     int       `json:"leaseDurationSeconds"`
	Acquired    time.Time `json:"acquireTime"`
	Renewed     time.Time `json:"renewTime"`
	Transitions int       `json:"leaderTransitions"`
}

func (r record) duration() time.Duration { return time.Duration(r.Seconds) * time.Second }

// theirs is the record of a lock that this candidate does not hold. A live holder never looks
// expired, because each record was renewed just now: an elector that took it for expired
// would report that it leads.
func theirs(st fencelock.Status, identity string, now time.Time, ttl time.Duration) record {
	if len(st.Holders) == 0 {
		return record{Renewed: now, Acquired: now}
	}
	h := st.Holders[0]
	holder := h.Record.Labels[identityLabel]
	switch holder {
	case "":
		holder = h.Record.Owner
	case identity:
		// With the same identity the elector would take it for itself.
		holder += " (another process)"
	}
	return ours(holder, now.Add(-h.Age), now, h.Token, ttl)
}

// ours is the record of a holder. It is valid for a second longer than the TTL, because times
// in it are in seconds.
func ours(holder string, since, now time.Time, token fencelock.Token, ttl time.Duration) record {
	return record{
		Holder:      holder,
		Seconds:     int(math.Ceil(ttl.Seconds())) + 1,
		Acquired:    since,
		Renewed:     now,
		Transitions: int(token & math.MaxInt32),
	}
}

// encode returns a record as client-go has it, and its bytes.
func encode[R any](r record) (*R, []byte, error) {
	r.Acquired, r.Renewed = r.Acquired.UTC().Truncate(time.Second), r.Renewed.UTC().Truncate(time.Second)
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, nil, err
	}
	of := new(R)
	if err := json.Unmarshal(raw, of); err != nil {
		return nil, nil, err
	}
	return of, raw, nil
}

func decode[R any](of R) (record, error) {
	raw, err := json.Marshal(of)
	if err != nil {
		return record{}, err
	}
	var r record
	return r, json.Unmarshal(raw, &r)
}

// checkRecord fails if R has not the fields of a record.
func checkRecord[R any]() error {
	at := time.Unix(1, 0).UTC()
	want := record{Holder: "holder", Seconds: 1, Acquired: at, Renewed: at, Transitions: 1}
	of, _, err := encode[R](want)
	if err == nil {
		var got record
		if got, err = decode(*of); err == nil && got == want {
			return nil
		}
	}
	return errors.Join(fmt.Errorf("%v is not a record; write New[resourcelock.LeaderElectionRecord]", reflect.TypeFor[R]()), err)
}

// someIdentity is one that no other candidate has.
func someIdentity() string {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	return host + "_" + rand.Text()
}
