// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// layout is where a namespace keeps its names. All processes must agree on it: it cannot be changed while
// processes use the namespace, because a name would have two places.
type layout struct{ buckets int }

// String returns the layout as the marker has it.
func (l layout) String() string {
	// Not by fmt: every call of a script has it.
	return "v2 buckets=" + strconv.Itoa(l.buckets)
}

// parseLayout reads the layout of a marker. It reports false for one of another version.
func parseLayout(text string) (l layout, ok bool) {
	_, err := fmt.Sscanf(text, "v2 buckets=%d", &l.buckets)
	return l, err == nil && l.buckets > 0 && l.String() == text
}

// shard returns the bucket of a name.
func (l layout) shard(name string) string {
	if l.buckets == 1 {
		return firstShard
	}
	h := fnv.New32a()
	h.Write([]byte(name))
	return strconv.Itoa(int(h.Sum32() % uint32(l.buckets)))
}

// firstShard is the bucket that every namespace has. Operators' calls read from
// its marker how many buckets there are.
const firstShard = "0"

// errVacant is returned for a bucket that no session has been opened in.
var errVacant = errors.New("redisstore: the namespace is not set up")

// layoutError is returned when the namespace was set up with another layout.
type layoutError struct {
	namespace string
	theirs    string
}

// Error says what to set. It never advises another namespace: that would not exclude the processes that use this one.
func (e *layoutError) Error() string {
	theirs, ok := parseLayout(e.theirs)
	if !ok {
		return fmt.Sprintf("redisstore: the namespace %q was set up with %q, by another version of this library; use the same version in all processes: %v",
			e.namespace, e.theirs, driver.ErrRefused)
	}
	return fmt.Sprintf("redisstore: the namespace %q was set up with buckets=%d; add buckets=%d to the URL (Options{Buckets: %d});"+
		" another namespace would not exclude the processes that use this one, and to change the number see docs/redis-layout.md: %v",
		e.namespace, theirs.buckets, theirs.buckets, theirs.buckets, driver.ErrRefused)
}

// Is reports whether the error means target: it is a refusal.
func (e *layoutError) Is(target error) bool { return target == driver.ErrRefused }

// current is the layout to begin an operator's call with: the one that the last such
// call found, or our own.
func (s *Store) current() layout {
	if found := s.found.Load(); found != nil {
		return *found
	}
	return s.layout
}

// operate makes an operator's call (Inspect, List, Break, SetLimit). Such a call is never
// refused for its layout: if the namespace was set up with another one, call is run again
// with that. It sets nothing up. A bucket without a marker may be one that the namespace
// does not have, so the first bucket is asked then.
func (s *Store) operate(ctx context.Context, call func(layout) error) error {
	set := s.current()
	for tries := 1; ; tries++ {
		err := call(set)
		if errors.Is(err, errVacant) {
			if _, first := s.callWith(ctx, set, inspectScript, firstShard, nil, "0", "0"); first != nil {
				err = first
			}
		}
		var other *layoutError
		if !errors.As(err, &other) || tries == 3 {
			return err
		}
		theirs, ok := parseLayout(other.theirs)
		if !ok {
			return err
		}
		s.found.Store(&theirs)
		set = theirs
	}
}

// buckets are the keys of the buckets of a namespace. All keys of a bucket begin with it, and
// have the hash tag in it, so they are in one slot.
type buckets struct {
	namespace string
	found     sync.Map // keys, by place
}

type place struct {
	shard string
	of    int
}

// key is the key of a shard of so many. The first bucket is in the slot of its name, whatever
// the number of buckets: a process that has another number must find its marker there.
// The names of the others end with the first number, in base 36, that puts them in the slot
// at their share of the way around all slots from the first. A cluster of any size then has
// on each master about its share of the buckets; by chance one of 32 masters had three.
func (b *buckets) key(shard string, of int) string {
	if of == 1 || shard == firstShard {
		return b.named(shard)
	}
	p := place{shard, of}
	if key, ok := b.found.Load(p); ok {
		return key.(string)
	}
	i, _ := strconv.Atoi(shard)
	first := int(rediscmd.CRC16(0, b.namespace+":"+firstShard)) % rediscmd.Slots
	want := (first + i*rediscmd.Slots/of) % rediscmd.Slots
	tag := shard + "."
	crc := rediscmd.CRC16(0, b.namespace+":"+tag)
	var digits []byte
	for n := int64(0); ; n++ {
		digits = strconv.AppendInt(digits[:0], n, 36)
		if int(rediscmd.CRC16(crc, digits))%rediscmd.Slots == want {
			key := b.named(tag + string(digits))
			b.found.Store(p, key)
			return key
		}
	}
}

func (b *buckets) named(bucket string) string {
	return b.namespace + ":{" + b.namespace + ":" + bucket + "}"
}
