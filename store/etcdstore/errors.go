// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"

	"github.com/fencelock/fencelock/store/etcdstore/internal/failure"
)

const (
	reading = failure.Reading
	writing = failure.Writing
)

// fail turns what the client returned into the words of the contract.
func fail(ctx context.Context, op string, err error, k failure.Kind) error {
	return failure.Of(ctx, "etcdstore", op, err, k)
}

func before(ctx context.Context) error { return failure.Before(ctx) }

func leaseMissing(err error) bool { return failure.LeaseMissing(err) }

func leaseThere(err error) bool { return failure.LeaseThere(err) }
