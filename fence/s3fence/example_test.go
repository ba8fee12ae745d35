// SPDX-License-Identifier: Apache-2.0

package s3fence_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/s3fence"
	"github.com/fencelock/fencelock/store/memstore"
)

// publish replaces the report. Readers get its key from reports.Current.
func publish(ctx context.Context, locks *fencelock.Client, reports *s3fence.Guard, text string) error {
	return locks.Do(ctx, "reports", func(ctx context.Context, _ *fencelock.Lease) error {
		previous, err := reports.Enter(ctx) // the key of the current object, or empty at first
		if err != nil {
			return err
		}
		fmt.Println("replaces something:", previous != "")
		return reports.Put(ctx, &s3.PutObjectInput{Body: strings.NewReader(text)})
	})
}

// The guard rejects an object under a token that is older than the newest one that the pointer
// has seen. The locks can be in any store; here they are in memory.
func Example() {
	ctx := context.Background()
	client := connect(os.Getenv("S3_ENDPOINT"), "fencelock", "not-a-secret", nil) // in a program: s3.NewFromConfig
	locks, err := fencelock.New(memstore.New(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close(ctx)
	reports, err := s3fence.New(client, "guarded", "reports", "reports") // the bucket, the prefix, and the lock
	if err != nil {
		log.Fatal(err)
	}
	if err := reports.Check(ctx); err != nil { // once, when the program starts
		log.Fatal(err)
	}
	for _, text := range []string{"first", "second"} {
		if err := publish(ctx, locks, reports, text); err != nil {
			log.Fatal(err)
		}
	}
	late := fence.With(ctx, fence.Mark{Lock: "reports", Token: 1})
	err = reports.Put(late, &s3.PutObjectInput{Body: strings.NewReader("late")})
	fmt.Println("stale:", errors.Is(err, fence.ErrStale))
}
