// SPDX-License-Identifier: Apache-2.0

package filefence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/fencelock/fencelock/fence"
)

// elsewhereVariable makes the test binary one call of a guard, for a test that
// needs another process.
const elsewhereVariable = "FILEFENCE_TEST_CALL"

func TestMain(m *testing.M) {
	if os.Getenv(elsewhereVariable) == "" {
		os.Exit(m.Run())
	}
	var r request
	err := json.NewDecoder(os.Stdin).Decode(&r)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r.serve(context.Background()))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// request is one call, for another process. It has nothing but the files.
type request struct {
	Path, Lock string
	Mark       fence.Mark
	Write      bool
	Value      string
	Forgetful  bool // by the guard that keeps its fence in memory
}

// answer is what became of it.
type answer struct {
	Value string
	Stale *fence.StaleError
	Other string
}

func (r request) serve(ctx context.Context) (a answer) {
	v, err := openVersions(r.Path, r.Lock)
	if err != nil {
		return answer{Other: err.Error()}
	}
	ctx = fence.With(ctx, r.Mark)
	value := v.value()
	if r.Forgetful {
		forgetful(v, value)
	}
	if r.Write {
		err = value.Write(ctx, r.Value)
	} else {
		a.Value, err = value.Enter(ctx)
	}
	if err != nil && !errors.As(err, &a.Stale) {
		a.Other = err.Error()
	}
	return a
}

// elsewhere makes the call in a separate process, with the token of ctx.
func (r request) elsewhere(ctx context.Context) (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	if r.Mark, err = fence.FromContext(ctx, r.Lock); err != nil {
		return "", err
	}
	in, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), elsewhereVariable+"=yes")
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("another process: %w", err)
	}
	var a answer
	switch err := json.Unmarshal(out, &a); {
	case err != nil:
		return "", fmt.Errorf("another process said %q: %w", out, err)
	case a.Stale != nil:
		return "", a.Stale
	case a.Other != "":
		return "", errors.New(a.Other)
	}
	return a.Value, nil
}
