// SPDX-License-Identifier: Apache-2.0

package filefence_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
)

const forgetfulName = "fence in the memory of a process"

// wrongGuards are what people do with a file and a rename.
var wrongGuards = []struct {
	name, caught string
	change       func(v *versions, value *fencetest.Value)
}{
	{"atomic rename without a guard", "G2/delayed-writer", func(v *versions, value *fencetest.Value) {
		plain(v, value)
		value.Write = func(_ context.Context, text string) error { return v.replace(text) }
	}},
	{"check the pointer, then rename", "G4/write-in-steps", func(v *versions, value *fencetest.Value) {
		plain(v, value)
		value.Write = func(ctx context.Context, text string) error {
			if _, err := v.Dir.Enter(ctx); err != nil {
				return err
			}
			fencetest.Step(ctx)
			return v.replace(text)
		}
	}},
	{"read before the fence", "G3/entry-in-steps", func(v *versions, value *fencetest.Value) {
		value.Enter = func(ctx context.Context) (string, error) {
			text, err := v.Read(ctx)
			if err != nil {
				return "", err
			}
			fencetest.Step(ctx)
			_, err = v.Dir.Enter(ctx)
			return text, err
		}
	}},
	{"> for >=", "G1/retry", func(v *versions, value *fencetest.Value) {
		// A new name for the pointer must have a newer token, as if the folder
		// were named by the token alone.
		write := value.Write
		value.Write = func(ctx context.Context, text string) error {
			given, err := fence.Innermost(ctx)
			if err != nil {
				return err
			}
			if already, _ := filepath.Glob(filepath.Join(v.path, given.Token.String()+"-*")); already != nil {
				return &fence.StaleError{Given: given}
			}
			return write(ctx, text)
		}
	}},
	{forgetfulName, "G9/restart", forgetful},
	{forgetfulName, "G10/two-processes", forgetful},
}

func TestWrongGuardsAreRefused(t *testing.T) {
	for _, w := range wrongGuards {
		t.Run(w.name+" "+w.caught, func(t *testing.T) { fencetest.Refuses(t, harness(t, w.name, w.change), w.caught) })
	}
}

// replace writes one file for all holders.
func (v *versions) replace(text string) error {
	tmp := filepath.Join(v.path, "plain.new")
	return errors.Join(os.WriteFile(tmp, []byte(text), 0o600), os.Rename(tmp, filepath.Join(v.path, "plain")))
}

// plain reads that file, and raises the fence as it should be.
func plain(v *versions, value *fencetest.Value) {
	value.Read = func(context.Context) (string, error) {
		text, err := os.ReadFile(filepath.Join(v.path, "plain"))
		if errors.Is(err, os.ErrNotExist) {
			return "", nil
		}
		return string(text), err
	}
	value.Enter = func(ctx context.Context) (string, error) {
		if _, err := v.Dir.Enter(ctx); err != nil {
			return "", err
		}
		return value.Read(ctx)
	}
}

// forgetful checks the token under a mutex, as one process can.
func forgetful(v *versions, value *fencetest.Value) {
	plain(v, value)
	var mu sync.Mutex
	var kept fence.Mark
	admit := func(ctx context.Context, work func() error) error {
		given, err := fence.Innermost(ctx)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		if err := fence.Check(kept, given); err != nil {
			return err
		}
		kept = given
		return work()
	}
	read := value.Read
	value.Enter = func(ctx context.Context) (text string, err error) {
		err = admit(ctx, func() error { text, err = read(ctx); return err })
		return text, err
	}
	value.Write = func(ctx context.Context, text string) error {
		return admit(ctx, func() error { return v.replace(text) })
	}
}
