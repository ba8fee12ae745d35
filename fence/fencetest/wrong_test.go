// SPDX-License-Identifier: Apache-2.0

package fencetest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
)

// rule is the reference guard with another rule, given both marks.
func rule(check func(kept, given fence.Mark) error) func(*memory, *fencetest.Value) {
	return func(m *memory, v *fencetest.Value) {
		admit := func(ctx context.Context, admitted func()) error {
			given, err := fence.FromContext(ctx, m.lock)
			if err != nil {
				return err
			}
			fencetest.Step(ctx)
			m.mu.Lock()
			defer m.mu.Unlock()
			if err := check(m.kept, given); err != nil {
				return err
			}
			m.kept = given
			admitted()
			return nil
		}
		v.Enter = func(ctx context.Context) (value string, err error) {
			err = admit(ctx, func() { value = m.value })
			return value, err
		}
		v.Write = func(ctx context.Context, value string) error {
			return admit(ctx, func() { m.value = value })
		}
	}
}

// stale refuses if the rule says so.
func stale(refuse func(kept, given fence.Mark) bool) func(*memory, *fencetest.Value) {
	return rule(func(kept, given fence.Mark) error {
		if refuse(kept, given) {
			return &fence.StaleError{Given: given, Newer: kept}
		}
		return nil
	})
}

// anyLock is the reference guard that takes whatever mark the context carries.
func anyLock(m *memory, v *fencetest.Value) {
	with := func(ctx context.Context) context.Context {
		if mark, err := fence.Innermost(ctx); err == nil {
			mark.Lock = m.lock
			return fence.With(ctx, mark)
		}
		return ctx
	}
	v.Enter = func(ctx context.Context) (string, error) { return m.Enter(with(ctx)) }
	v.Write = func(ctx context.Context, value string) error { return m.Write(with(ctx), value) }
}

var wrongGuards = []struct {
	name, caught string
	change       func(m *memory, v *fencetest.Value)
}{
	{"no guard at all", "G2/delayed-writer", noGuard},
	{"check, then write", "G4/write-in-steps", checkThenWrite},
	{"check, then raise", "G4/late-entry-in-steps", checkThenRaise},
	{"fence raised by writes only", "G3/raised-at-entry", func(m *memory, v *fencetest.Value) { v.Enter = peek(m) }},
	{"read, then raise", "G3/entry-in-steps", readThenRaise},
	{"> for >=", "G1/retry", stale(func(kept, given fence.Mark) bool { return given.Token <= kept.Token })},
	{"one write per token", "G1/retry", oneWritePerToken},
	{"entry lowers the fence", "G2/late-entry", entryLowers},
	{"refusal moves the fence", "G2/delayed-writer", refusalMoves},
	{"refusal writes all the same", "G2/delayed-writer", refusalWrites},
	{"no row changed is success", "G2/delayed-writer", refusalIsSuccess},
	{"refusal is some error", "G2/delayed-writer", refusalIsSomeError},
	{"fence that was not set up", "G1/first", stale(func(kept, _ fence.Mark) bool { return kept.Token == 0 })},
	{"first token only", "G1/newer", stale(func(kept, given fence.Mark) bool { return kept.Token != 0 && given.Token != kept.Token })},
	{"tokens as text", "G6/numbers", stale(func(kept, given fence.Mark) bool {
		return given.Token.String() < kept.Token.String() && kept.Token != 0
	})},
	{"tokens as float64", "G6/numbers", stale(func(kept, given fence.Mark) bool { return float64(given.Token) < float64(kept.Token) })},
	{"tokens in 32 bits", "G6/numbers", stale(func(kept, given fence.Mark) bool { return int32(given.Token) < int32(kept.Token) })},
	{"tokens without their highest bit", "G6/numbers", stale(func(kept, given fence.Mark) bool {
		return given.Token&(1<<62-1) < kept.Token&(1<<62-1)
	})},
	{"same holder is trusted", "G2/same-holder", stale(func(kept, given fence.Mark) bool {
		return given.Token < kept.Token && given.Holder != kept.Holder
	})},
	{"same holder with a name is trusted", "G2/same-holder", stale(func(kept, given fence.Mark) bool {
		return given.Token < kept.Token && (given.Holder != kept.Holder || given.Holder == "")
	})},
	{"holder without a name is trusted", "G2/same-holder", stale(func(kept, given fence.Mark) bool {
		return given.Token < kept.Token && given.Holder != ""
	})},
	{"token of any lock", "G5/wrong-lock", anyLock},
	{"no token, no check", "G5/no-token", noTokenNoCheck},
	{"lost reply is a refusal", "G7/lost-reply", lostIs(&fence.StaleError{})},
	{"lost reply is success", "G7/lost-reply", lostIs(nil)},
	{"first try opens for the second", "G7/lost-reply-then-newer", firstTryOpens},
	{"lost reply is sent again", "G7/lost-reply-overtaken", func(m *memory, v *fencetest.Value) {
		v.LoseReply = func(ctx context.Context, value string) error {
			if err := m.LoseReply(ctx, value); !errors.Is(err, errLost) {
				return err
			}
			return m.Write(ctx, value)
		}
	}},
	{"names itself as the newer", "G8/names", rule(func(kept, given fence.Mark) error {
		if err := fence.Check(kept, given); err != nil {
			return &fence.StaleError{Given: kept, Newer: given}
		}
		return nil
	})},
	{"write that does not raise the fence", "G2/write-without-entry", writeDoesNotRaise},
	{"check, then write, and no Step", "G4/write-in-steps", withoutStep},
	{"names cut to 32 bytes", "G5/similar-names", cutNames},
	{"fence in the memory of a process", "G10/two-processes", fenceInProcess},
	{"mutex of a process around check and write", "G10/two-processes-write-in-steps", inProcessMutex(checkThenWrite)},
	{"mutex of a process around read and raise", "G10/two-processes-entry-in-steps", inProcessMutex(readThenRaise)},
}

func TestWrongGuardsAreRefused(t *testing.T) {
	for _, w := range wrongGuards {
		t.Run(w.name, func(t *testing.T) { fencetest.Refuses(t, harness(w.name, w.change), w.caught) })
	}
}

// TestSlowWrongGuardsAreRefused: the other holder needs a second, as it may on a
// busy machine. If the stopped holder went on earlier, the two would not overlap.
func TestSlowWrongGuardsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fencetest.Refuses(t, harness("check, then write, slowly", func(m *memory, v *fencetest.Value) {
			checkThenWrite(m, v)
			v.Enter = func(ctx context.Context) (string, error) {
				time.Sleep(time.Second)
				return m.Enter(ctx)
			}
		}), "G4/write-in-steps")
	})
}

// TestFenceInMemoryIsRefused: the value outlives what the guard remembers.
func TestFenceInMemoryIsRefused(t *testing.T) {
	var values []*memory
	h := harness("fence in memory", func(m *memory, _ *fencetest.Value) { values = append(values, m) })
	h.Restart = func(context.Context) error {
		for _, m := range values {
			m.mu.Lock()
			m.kept = fence.Mark{}
			m.mu.Unlock()
		}
		return nil
	}
	fencetest.Refuses(t, h, "G9/restart")
}

func noGuard(m *memory, v *fencetest.Value) {
	v.Enter = peek(m)
	v.Write = func(_ context.Context, value string) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.value = value
		return nil
	}
}

// peek reads, and has the token only.
func peek(m *memory) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		if _, err := fence.FromContext(ctx, m.lock); err != nil {
			return "", err
		}
		return m.Read(ctx)
	}
}

func checkThenWrite(m *memory, v *fencetest.Value) {
	v.Write = func(ctx context.Context, value string) error {
		if err := m.raise(ctx, func() {}); err != nil {
			return err
		}
		fencetest.Step(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.value = value
		return nil
	}
}

func checkThenRaise(m *memory, v *fencetest.Value) {
	v.Enter = func(ctx context.Context) (string, error) {
		given, err := fence.FromContext(ctx, m.lock)
		if err != nil {
			return "", err
		}
		m.mu.Lock()
		err = fence.Check(m.kept, given)
		m.mu.Unlock()
		if err != nil {
			return "", err
		}
		fencetest.Step(ctx)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.kept = given
		return m.value, nil
	}
}

func readThenRaise(m *memory, v *fencetest.Value) {
	v.Enter = func(ctx context.Context) (string, error) {
		value, err := peek(m)(ctx)
		if err != nil {
			return "", err
		}
		return value, m.raise(ctx, func() {})
	}
}

func oneWritePerToken(m *memory, v *fencetest.Value) {
	var last fence.Mark
	v.Write = func(ctx context.Context, value string) error {
		return m.raise(ctx, func() {
			if m.kept != last {
				m.value, last = value, m.kept
			}
		})
	}
}

// entryLowers is a fence by equality: the holder that entered last may write.
func entryLowers(m *memory, v *fencetest.Value) {
	v.Enter = func(ctx context.Context) (string, error) {
		given, err := fence.FromContext(ctx, m.lock)
		if err != nil {
			return "", err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.kept = given
		return m.value, nil
	}
}

func refusalMoves(m *memory, v *fencetest.Value) {
	v.Write = func(ctx context.Context, value string) error {
		err := m.Write(ctx, value)
		if given, _ := fence.FromContext(ctx, m.lock); errors.Is(err, fence.ErrStale) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.kept = given
		}
		return err
	}
}

func refusalWrites(m *memory, v *fencetest.Value) {
	v.Write = func(ctx context.Context, value string) error {
		err := m.Write(ctx, value)
		m.mu.Lock()
		defer m.mu.Unlock()
		m.value = value
		return err
	}
}

func refusalIsSuccess(m *memory, v *fencetest.Value) {
	v.Write = func(ctx context.Context, value string) error {
		if err := m.Write(ctx, value); !errors.Is(err, fence.ErrStale) {
			return err
		}
		return nil
	}
}

func refusalIsSomeError(m *memory, v *fencetest.Value) {
	v.Write = func(ctx context.Context, value string) error {
		if err := m.Write(ctx, value); err == nil {
			return nil
		}
		return errLost
	}
}

func noTokenNoCheck(m *memory, v *fencetest.Value) {
	v.Write = func(ctx context.Context, value string) error {
		if err := m.Write(ctx, value); !errors.Is(err, fence.ErrNoToken) {
			return err
		}
		m.mu.Lock()
		defer m.mu.Unlock()
		m.value = value
		return nil
	}
}

func lostIs(answer error) func(*memory, *fencetest.Value) {
	return func(m *memory, v *fencetest.Value) {
		v.LoseReply = func(ctx context.Context, value string) error {
			if err := m.Write(ctx, value); err != nil {
				return err
			}
			return answer
		}
	}
}

// firstTryOpens remembers what it has let in and lets it in again.
func firstTryOpens(m *memory, v *fencetest.Value) {
	seen := map[string]bool{}
	v.Write = func(ctx context.Context, value string) error {
		if seen[value] {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.value = value
			return nil
		}
		return m.Write(ctx, value)
	}
	v.LoseReply = func(ctx context.Context, value string) error {
		seen[value] = true
		return m.LoseReply(ctx, value)
	}
}
