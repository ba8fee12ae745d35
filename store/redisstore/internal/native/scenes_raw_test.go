// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// bucket is the key of the bucket: the shortest of all.
func (w *world) bucket() string {
	w.t.Helper()
	keys, err := w.p.plain.Keys(w.ctx, lists+"*").Result()
	w.must(err)
	return slices.MinFunc(keys, func(a, b string) int { return len(a) - len(b) })
}

// list reads the list of a lock.
func (w *world) list(name string) (key string, elements []string) {
	w.t.Helper()
	key = w.bucket() + ":l:" + name
	elements, err := w.p.plain.LRange(w.ctx, key, 0, -1).Result()
	w.must(err)
	return key, elements
}

// isReset fails unless an error is ErrReset.
func (w *world) isReset(what string, err error) {
	w.t.Helper()
	if !errors.Is(err, driver.ErrReset) {
		w.differ("%s of a session of an earlier incarnation: %v", what, err)
	}
}

// only attempts a claim on Redis alone and compares the state.
func (w *world) only(s driver.Session, seq uint64, name string, queue bool, want driver.State) driver.Outcome {
	w.t.Helper()
	out, err := s.Attempt(w.ctx, &driver.Claim{Seq: seq, Name: name, Queue: queue, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
	if err != nil || out.State != want {
		w.differ("attempt %d %q: %v, %v, want %v", seq, name, out.State, err, want)
	}
	return out
}

// tombstone withdraws a claim on Redis alone, with a tombstone.
func (w *world) tombstone(i int, seq uint64, name string) {
	w.t.Helper()
	if _, err := w.procs[i].real.Withdraw(w.ctx, driver.Withdrawal{Seq: seq, Name: name, Tombstone: true}); err != nil {
		w.differ("withdraw %d %q: %v", seq, name, err)
	}
}

// release withdraws a grant on Redis alone.
func (w *world) release(i int, seq uint64, name string) {
	w.t.Helper()
	if found, err := w.procs[i].real.Withdraw(w.ctx, driver.Withdrawal{Seq: seq, Name: name}); err != nil || found != driver.WasGranted {
		w.differ("release %d %q: %v, %v", seq, name, found, err)
	}
}

// elsewhere resumes the session of a process in another process.
func (w *world) elsewhere(i int) driver.Session {
	w.t.Helper()
	other := w.another()
	s, _, err := other.Open(w.ctx, driver.OpenRequest{Shard: other.Shard(w.names[0]), ID: w.procs[i].id, TTL: w.procs[i].ttl})
	w.must(err)
	return s
}

// holds fails unless a lock has one holder, with a token above another.
func (w *world) holds(name string, id driver.SessionID, above driver.Token) {
	w.t.Helper()
	st, err := w.real.Inspect(w.ctx, name)
	w.must(err)
	if len(st.Holders) != 1 || st.Holders[0].Claim.Session != id || st.Holders[0].Token <= above {
		w.differ("%q is held by %+v, want %v with a token above %v", name, st.Holders, id, above)
	}
}

// rawScenes change the data on the server, as a failback or a release that was cut off would.
// The model has no part in them.
var rawScenes = []scene{
	{name: "failback", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(1, 1, "b", plainTerms)
		// The first server takes over again, with its run id and its scripts.
		m, err := w.p.plain.HGet(w.ctx, w.bucket(), "m").Result()
		w.must(err)
		w.must(w.p.plain.HSet(w.ctx, w.bucket(), "m", m[:6]+string([]byte{m[6] + 1})+m[7:]).Err())
		for i, queue := range []bool{false, true, true} {
			_, err = w.procs[0].real.Attempt(w.ctx, &driver.Claim{Seq: uint64(110 + i/2), Name: "c", Queue: queue, Terms: &driver.Terms{Weight: 1, Record: &driver.Record{}}})
			w.isReset("an attempt", err)
		}
		if w.scripted { // plain commands may remove a grant that is there
			_, err = w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 101, Name: "a"})
			w.isReset("a withdrawal", err)
		}
		_, err = w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 119, Name: "a", Tombstone: true})
		w.isReset("a tombstone", err)
		w.p.now = w.p.now.Add(tick) // or the end is not moved, and a script decides
		w.must(w.p.write(w.ctx))
		_, err = w.procs[1].real.KeepAlive(w.ctx)
		w.isReset("a keep-alive", err)
		_, err = w.procs[1].real.Reclaim(w.ctx, nil, true)
		w.isReset("a reclaim", err)
		w.isReset("the end", w.procs[1].real.Close(w.ctx))
	}},
	{name: "reopened", play: func(w *world) {
		w.quick = true
		w.open(0, 400*time.Millisecond)
		w.open(1, 2*time.Second)
		before := w.procs[0].real
		w.elapse(500 * time.Millisecond)
		w.open(0, time.Second)
		for seq, queue := range []bool{false, true} {
			name := []string{"c", "d"}[seq]
			w.only(before, uint64(120+seq), name, queue, driver.Granted)
			w.holds(name, w.procs[0].id, 0)
		}
		// The session is reopened before its process can know that it ended.
		before, id := w.procs[1].real, w.procs[1].id
		w.must(w.p.plain.HDel(w.ctx, w.bucket(), "s"+string(id[:])).Err())
		w.must(w.p.plain.ZRem(w.ctx, w.bucket()+":s", string(id[:])).Err())
		w.elapse(tick)
		w.open(1, time.Second)
		w.only(before, 122, "b", true, driver.Granted)
		w.holds("b", id, 0)
	}},
	{name: "leftovers", play: func(w *world) {
		w.openAll()
		w.ask(0, 1, "a", plainTerms)
		w.ask(0, 2, "c", plainTerms)
		w.ask(0, 3, "d", plainTerms)
		w.ask(1, 3, "d", plainTerms)
		_, a := w.list("a")
		key, _ := w.list("c")
		w.must(w.p.plain.LPush(w.ctx, key, a[1]).Err()) // a claim without a ticket
		w.only(w.procs[1].real, 130, "c", true, driver.Queued)
		w.holds("c", w.procs[0].id, 0)
		key, _ = w.list("b")
		w.must(w.p.plain.RPush(w.ctx, key, a[1], a[1]).Err())
		w.only(w.procs[1].real, 131, "b", false, driver.Granted)
		w.holds("b", w.procs[1].id, 0)
		key, _ = w.list("d")
		w.must(w.p.plain.LSet(w.ctx, key, 2, a[1]).Err()) // the ticket of the first in the queue
		if _, err := w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 103, Name: "d"}); err != nil {
			w.differ("the release before a leftover: %v", err)
		}
		w.only(w.procs[1].real, 103, "d", true, driver.Granted)
		w.holds("d", w.procs[1].id, 0)
	}},
	{name: "half a release", play: func(w *world) {
		w.openAll()
		first := w.only(w.procs[0].real, 140, "a", true, driver.Granted).Token
		key, a := w.list("a")
		w.must(w.p.plain.LRem(w.ctx, key, 1, a[1]).Err()) // the server rejected the first command
		w.must(w.p.plain.Del(w.ctx, w.bucket()+":t").Err())
		w.only(w.procs[1].real, 140, "a", true, driver.Granted)
		w.holds("a", w.procs[1].id, first)
	}},
	{name: "late commands", play: func(w *world) {
		w.openAll()
		first := w.only(w.procs[0].real, 150, "a", true, driver.Granted).Token
		key, a := w.list("a")
		late := func(letter string) { // the transaction of a claim arrives again
			w.must(w.p.plain.LMove(w.ctx, w.bucket()+":t", key, "LEFT", "RIGHT").Err())
			w.must(w.p.plain.RPush(w.ctx, key, letter+a[1][1:]).Err())
		}
		late("X")
		w.only(w.procs[1].real, 150, "a", true, driver.Queued)
		if _, err := w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 150, Name: "a", Tombstone: true}); err != nil {
			w.differ("withdraw: %v", err)
		}
		late("X")
		w.only(w.procs[1].real, 150, "a", true, driver.Granted)
		w.holds("a", w.procs[1].id, first)
		if _, err := w.procs[1].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 150, Name: "a"}); err != nil {
			w.differ("withdraw: %v", err)
		}
		late("X")
		w.only(w.procs[2].real, 150, "a", false, driver.Granted)
		w.holds("a", w.procs[2].id, first)
	}},
	{name: "late after its tombstone", play: func(w *world) {
		w.openAll()
		w.only(w.procs[0].real, 180, "a", true, driver.Granted)
		_, a := w.list("a")
		late := func(name, letter string) { // the transaction of a claim arrives, and its reply is lost
			key, _ := w.list(name)
			w.must(w.p.plain.LMove(w.ctx, w.bucket()+":t", key, "LEFT", "RIGHT").Err())
			w.must(w.p.plain.RPush(w.ctx, key, letter+a[1][1:]).Err())
		}
		w.tombstone(0, 180, "a")
		w.only(w.procs[0].real, 181, "d", true, driver.Granted) // the process knows now that there are marks
		w.only(w.procs[0].real, 180, "d", true, driver.Absent)
		w.only(w.procs[0].real, 180, "a", true, driver.Absent)
		late("a", "X")
		w.only(w.procs[0].real, 182, "a", true, driver.Granted)
		late("a", "X") // behind a holder: it must not be the next
		w.only(w.procs[1].real, 180, "a", true, driver.Queued)
		w.release(0, 182, "a")
		w.holds("a", w.procs[1].id, 0)
		w.only(w.procs[2].real, 180, "a", false, driver.Busy)
		w.release(1, 180, "a")
		for _, queue := range []bool{true, false} { // before another claim
			late("b", "X")
			w.only(w.procs[2].real, 181, "b", queue, driver.Granted)
			w.holds("b", w.procs[2].id, 0)
			w.release(2, 181, "b")
		}
		late("c", "X")
		w.open(0, 2*time.Second) // again: its marks stay
		w.only(w.procs[0].real, 183, "c", true, driver.Granted)
		late("c", "Q") // as a script changes it that raises the number of the lock
		w.only(w.procs[2].real, 184, "c", true, driver.Queued)
		w.release(0, 183, "c")
		if _, c := w.list("c"); len(c) != 2 || !strings.HasPrefix(c[1], "G") { // it was granted, so its process was notified
			w.differ("after the release the list is %q", c)
		}
		w.holds("c", w.procs[2].id, 0)
	}},
	{name: "tombstones from elsewhere", play: func(w *world) {
		w.openAll()
		// Another process resumes the session and withdraws claims that the first did not send yet.
		other := w.elsewhere(0)
		for i, queue := range []bool{true, false} {
			seq := uint64(190 + i)
			if _, err := other.Withdraw(w.ctx, driver.Withdrawal{Seq: seq, Name: "a", Tombstone: true}); err != nil {
				w.differ("withdraw: %v", err)
			}
			w.only(w.procs[0].real, seq, "a", queue, driver.Absent)
			w.only(w.procs[0].real, seq+5, []string{"b", "c"}[i], true, driver.Granted) // the process knows now that there are marks
		}
		if _, err := other.Withdraw(w.ctx, driver.Withdrawal{Seq: 193, Name: "a", Tombstone: true}); err != nil {
			w.differ("withdraw: %v", err)
		}
		w.only(w.procs[0].real, 193, "a", true, driver.Absent)
	}},
	{name: "another holds", play: func(w *world) {
		w.openAll()
		first := w.only(w.procs[0].real, 170, "a", true, driver.Granted).Token
		key, _ := w.list("a")
		w.must(w.p.plain.Del(w.ctx, key).Err())
		w.only(w.procs[1].real, 170, "a", true, driver.Granted)
		if found, err := w.procs[0].real.Withdraw(w.ctx, driver.Withdrawal{Seq: 170, Name: "a"}); err != nil || found != driver.WasAbsent {
			w.differ("a release while another holds the lock: %v, %v", found, err)
		}
		w.holds("a", w.procs[1].id, first)
	}},
	{name: "queued holds nothing", play: func(w *world) {
		w.openAll()
		w.only(w.procs[0].real, 160, "a", true, driver.Granted)
		w.only(w.procs[1].real, 160, "a", true, driver.Queued)
		w.only(w.procs[2].real, 160, "a", true, driver.Queued)
		key, a := w.list("a")
		if len(a) != 6 || !strings.HasPrefix(a[3], "Q") {
			w.differ("the list is %q", a)
		}
		w.must(w.p.plain.LTrim(w.ctx, key, 2, -1).Err()) // the holder releases, and dies before it wakes the next
		w.only(w.procs[2].real, 160, "a", true, driver.Queued)
		w.holds("a", w.procs[1].id, 0)
	}},
}
