// SPDX-License-Identifier: Apache-2.0

package s3fence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Check tries whether the service obeys the conditions that the guard needs, with an object of
// its own below the prefix. Call it when the program starts. Its error wraps
// errors.ErrUnsupported if the service, or a proxy before it, ignores a condition: then the guard would admit
// older tokens without an error. Check cannot show whether the service checks and writes in one step.
func (g *Guard) Check(ctx context.Context) (err error) {
	name := "check-" + rand.Text()
	defer func() { err = errors.Join(err, g.remove(ctx, name)) }()
	put := func(body, old string) (string, error) {
		return putIf(ctx, g.client, g.bucket, g.prefix+name, []byte(body), old)
	}
	const other = `"0123456789abcdef0123456789abcdef"` // as of an object that was replaced
	if err := mustFail(put("a", other))("If-Match where there is no object"); err != nil {
		return err
	}
	first, err := put("a", "")
	if err != nil {
		return fmt.Errorf("s3fence: write an object: %w", err)
	}
	if err := mustFail(put("b", ""))("If-None-Match"); err != nil {
		return err
	}
	if err := mustFail(put("b", other))("If-Match"); err != nil {
		return err
	}
	second, err := put("b", first)
	if err != nil {
		return fmt.Errorf("s3fence: replace an object on the condition that it has not changed: %w", err)
	}
	if err := mustFail(put("c", first))("If-Match"); err != nil {
		return err
	}
	return g.checkRead(ctx, g.prefix+name, "b", second)
}

// mustFail returns an error if a conditional write did not fail as it must.
func mustFail(_ string, err error) func(condition string) error {
	return func(condition string) error {
		switch {
		case err == nil:
			return fmt.Errorf("s3fence: the service ignores %s: %w; do not use this guard there", condition, errors.ErrUnsupported)
		case !isConflict(err):
			return fmt.Errorf("s3fence: %s: %w", condition, err)
		}
		return nil
	}
}

// checkRead reads an object that was just written.
func (g *Guard) checkRead(ctx context.Context, key, want, etag string) error {
	out, err := g.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &g.bucket, Key: &key})
	if err != nil {
		return fmt.Errorf("s3fence: read an object: %w", err)
	}
	defer out.Body.Close()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		return fmt.Errorf("s3fence: read an object: %w", err)
	}
	if got := aws.ToString(out.ETag); string(body) != want || got != etag {
		return fmt.Errorf("s3fence: the service returned %q with ETag %s after %q with ETag %s was written: %w; do not use this guard there",
			body, got, want, etag, errors.ErrUnsupported)
	}
	return nil
}
