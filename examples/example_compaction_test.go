// SPDX-License-Identifier: Apache-2.0

package examples_test

import (
	"context"
	"fmt"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/store/memstore"
)

// compactUntilContended compacts segment after segment while no other process waits for the
// table. It gives way between two segments, never in the middle of one, and returns what is
// left to do.
func compactUntilContended(ctx context.Context, table *fencelock.Mutex, segments []string, compact func(l *fencelock.Lease, segment string) error) ([]string, error) {
	lease, err := table.Lock(ctx)
	if err != nil {
		return segments, err
	}
	defer lease.Unlock(ctx) // whose error only means that the lock ends with its session
	wanted := lease.Contended()
	for len(segments) > 0 {
		if err := compact(lease, segments[0]); err != nil {
			return segments, err
		}
		segments = segments[1:]
		select {
		case <-wanted:
			return segments, nil // the rest another time
		default:
		}
	}
	return nil, nil
}

// A compaction of four segments gives way to an import that comes during the second.
func Example_compaction() {
	ctx := context.Background()
	store := memstore.New(nil) // in a program: redisstore.Open(ctx, url, nil)
	background, importer := process(store, "compaction"), process(store, "import")
	defer background.Close(ctx)
	defer importer.Close(ctx)

	table := background.Mutex("tables/orders")
	imported := make(chan error, 1)
	compact := func(l *fencelock.Lease, segment string) error {
		fmt.Println("compacted", segment)
		if segment == "s2" {
			go func() {
				imported <- importer.Mutex("tables/orders").Do(ctx, func(context.Context, *fencelock.Lease) error { return nil })
			}()
			<-l.Contended() // a segment takes longer than a notice; here, too
		}
		return nil
	}
	left, err := compactUntilContended(ctx, table, []string{"s1", "s2", "s3", "s4"}, compact)
	fmt.Println("gave way:", len(left), "left", err)
	fmt.Println("imported:", <-imported)
	left, err = compactUntilContended(ctx, table, left, compact)
	fmt.Println("done:", len(left), "left", err)
	// Output:
	// compacted s1
	// compacted s2
	// gave way: 2 left <nil>
	// imported: <nil>
	// compacted s3
	// compacted s4
	// done: 0 left <nil>
}
