// SPDX-License-Identifier: Apache-2.0

package fill

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore"
)

func TestSlotOf(t *testing.T) {
	if got := crc16("123456789"); got != 0x31c3 {
		t.Errorf("CRC-16 of 123456789 is %#x, want 0x31c3", got)
	}
	for key, want := range map[string]int{
		"foo": 12182, "{foo}bar": 12182, "a{foo}": 12182, "{}foo": int(crc16("{}foo")) % Slots, "fencelock:{fencelock:0}": slotOf("fencelock:0"),
	} {
		if got := slotOf(key); got != want {
			t.Errorf("slot of %q is %d, want %d", key, got, want)
		}
	}
}

func TestMasters(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	one := Masters(4, names, func(string) string { return "0" }, 1)
	if slices.Max(one) != 4 || slices.Min(one) != 0 {
		t.Errorf("one shard is on several masters: %v", one)
	}
	of := func(name string) string { return name }
	all := Masters(1, names, of, 1)
	if !slices.Equal(all, []float64{4}) {
		t.Errorf("one master has %v of 4", all)
	}
	for i, n := range Masters(Slots, names, of, 1) {
		for _, name := range names {
			if n > 0 && Slot(name, 1) == i {
				n--
			}
		}
		if n != 0 {
			t.Errorf("master %d has names of another slot", i)
		}
	}
}

// TestSlotsOfBuckets: the buckets of a cluster are evenly spread.
func TestSlotsOfBuckets(t *testing.T) {
	const of = 32
	for i := range of {
		if got, want := Slot(strconv.Itoa(i), of), (slotOf(namespace+":0")+i*Slots/of)%Slots; got != want {
			t.Errorf("bucket %d is in slot %d, want %d", i, got, want)
		}
	}
}

// newStore is a store on a server of this test.
func newStore(t *testing.T) (*redisstore.Store, *redis.Client) {
	t.Helper()
	server, err := servers.Redis.Start()
	if errors.Is(err, servers.ErrMissing) {
		t.Skip(err)
	}
	must.OK(t, err)
	t.Cleanup(server.Stop)
	client := redis.NewClient(&redis.Options{Addr: server.Addr})
	t.Cleanup(func() { _ = client.Close() })
	store, err := redisstore.New(client, nil)
	must.OK(t, err)
	return store, client
}

// TestFill: the store sees what was written as what it would have written itself: locks
// that are held, and free when their session is over.
func TestFill(t *testing.T) {
	store, client := newStore(t)
	ctx := t.Context()
	const ttl = 2 * time.Second
	o := NewOwner(store, client, ttl)
	must.OK(t, o.Hold(ctx, "hold", 450, nil))
	o.KeepAlive(ctx)
	must.OK(t, Share(ctx, store, "readers", 20, time.Minute))
	locks, err := fencelock.New(store, nil)
	must.OK(t, err)
	defer locks.Close(ctx)
	if _, err := locks.Mutex("hold/449").TryLock(ctx); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("a held lock: %v", err)
	}
	reader, err := locks.RWMutex("readers").RLock(ctx)
	if err != nil {
		t.Fatalf("one more reader: %v", err)
	}
	if err := Holders(ctx, store, "readers", 21); err != nil {
		t.Error(err)
	}
	if err := reader.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if _, err := locks.RWMutex("readers").TryLock(ctx); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("a writer beside 20 readers: %v", err)
	}
	time.Sleep(ttl + ttl/2)
	if _, err := locks.Mutex("hold/0").TryLock(ctx); !errors.Is(err, fencelock.ErrBusy) {
		t.Errorf("a held lock that is kept alive: %v", err)
	}
	o.Close()
	l, err := locks.Mutex("hold/0").Lock(ctx) // when the session is over
	must.OK(t, err)
	if err := l.Unlock(ctx); err != nil {
		t.Error(err)
	}
	if err := Holders(ctx, store, fmt.Sprint("hold/", 1), 1); err == nil {
		t.Error("a lock of a session that is over has a holder")
	}
}
