// SPDX-License-Identifier: Apache-2.0

//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package filefence_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/filefence"
	"github.com/fencelock/fencelock/store/memstore"
)

// openReports returns a folder of versions, with the pointer to the newest beside
// them.
func openReports(path string) (*filefence.Dir, error) {
	pointer, err := filefence.NewLocal(filepath.Join(path, "current"), "reports")
	if err != nil {
		return nil, err
	}
	return filefence.New(path, "reports", pointer)
}

// publish writes a version that no reader sees yet, and then switches to it.
func publish(ctx context.Context, locks *fencelock.Client, reports *filefence.Dir, text string) error {
	return locks.Do(ctx, "reports", func(ctx context.Context, _ *fencelock.Lease) error {
		previous, err := reports.Enter(ctx) // a folder, or empty at first
		if err != nil {
			return err
		}
		fmt.Println("replaces something:", previous != "")
		return reports.Publish(ctx, func(folder string) error {
			return os.WriteFile(filepath.Join(folder, "report.txt"), []byte(text), 0o644)
		})
	})
}

func Example() {
	ctx := context.Background()
	path, err := os.MkdirTemp("", "reports")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(path)
	reports, err := openReports(path)
	if err != nil {
		fmt.Println(err)
		return
	}
	locks, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close(ctx)
	for _, text := range []string{"all is well", "all is better"} {
		if err := publish(ctx, locks, reports, text); err != nil {
			fmt.Println(err)
		}
	}
	current, err := reports.Current(ctx) // readers need no lock
	if err != nil {
		fmt.Println(err)
		return
	}
	text, err := os.ReadFile(filepath.Join(current, "report.txt"))
	fmt.Println(string(text), err)

	late := fence.With(ctx, fence.Mark{Lock: "reports", Token: 1})
	err = reports.Publish(late, func(string) error { return nil })
	fmt.Println("too late:", errors.Is(err, fence.ErrStale))
	// Output:
	// replaces something: false
	// replaces something: true
	// all is better <nil>
	// too late: true
}
