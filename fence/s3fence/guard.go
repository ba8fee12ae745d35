// SPDX-License-Identifier: Apache-2.0

package s3fence

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
)

// pointerName is the name of the pointer below the prefix. No object of a token has it.
const pointerName = "current"

// removeTimeout bounds the removal of an object that was refused.
const removeTimeout = 10 * time.Second

// Guard is a prefix of objects and the pointer to the current one. It is safe for concurrent
// use, by several processes too, and needs no closing. Share one per prefix: it remembers
// the state of the pointer and saves reading it.
type Guard struct {
	client         Client
	bucket, prefix string
	lock           string
	pointer        *Pointer
}

// New returns a guard for the objects below a prefix, such as "reports" for "reports/…", which must not
// be used for anything else. lock is the name of the lock whose token is checked. It does no I/O.
func New(client Client, bucket, prefix, lock string) (*Guard, error) {
	prefix = strings.TrimSuffix(prefix, "/")
	if client == nil || bucket == "" || prefix == "" || lock == "" {
		return nil, errors.New("s3fence: a guard needs a client, a bucket, a prefix and the name of a lock")
	}
	prefix += "/"
	p, err := NewPointer(client, bucket, prefix+pointerName, lock)
	return &Guard{client, bucket, prefix, lock, p}, err
}

// Enter raises the fence to the token that ctx carries and returns the key of the current
// object, or "" if there is none. No older holder changes that afterwards. Do it before you read, and with the
// token that Client.ForceUnlock returned, to fence a broken holder off.
//
// It returns an error that wraps fence.ErrStale if a newer token was there.
func (g *Guard) Enter(ctx context.Context) (key string, err error) {
	return g.key(g.pointer.Enter(ctx))
}

// Current returns the key of the current object, or "" if there is none. It needs no token.
func (g *Guard) Current(ctx context.Context) (key string, err error) {
	return g.key(g.pointer.Get(ctx))
}

func (g *Guard) key(name string, err error) (string, error) {
	if err != nil || name == "" {
		return "", err
	}
	return g.prefix + name, nil
}

// Put writes an object and makes it the current one. Leave Bucket and Key of in empty: the
// guard sets them.
//
// It returns an error that wraps fence.ErrStale, fence.ErrNoToken or fence.ErrWrongLock if it was
// refused: then nothing was changed, and the object is deleted again. Any other error leaves the outcome unknown,
// unless it says that nothing was published: enter again with the same token and look.
func (g *Guard) Put(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) error {
	if in == nil || in.Bucket != nil || in.Key != nil {
		return errors.New("s3fence: Put needs an input without Bucket and Key; the guard sets them")
	}
	return g.Publish(ctx, func(ctx context.Context, key string) error {
		to := *in
		to.Bucket, to.Key = &g.bucket, &key
		_, err := g.client.PutObject(ctx, &to, opts...)
		return err
	})
}

// Publish is Put for an object that write writes, in several parts for example: it must be
// complete under that key, in the bucket of the guard, when write returns.
func (g *Guard) Publish(ctx context.Context, write func(ctx context.Context, key string) error) error {
	m, err := fence.FromContext(ctx, g.lock)
	if err != nil {
		return err
	}
	// The token alone is not enough: a holder that tries again must not change what it has
	// published already.
	name := m.Token.String() + "-" + rand.Text()
	if err := write(ctx, g.prefix+name); err != nil {
		return errors.Join(fmt.Errorf("s3fence: nothing was published: %w", err), g.remove(ctx, name))
	}
	now, err := g.pointer.set(ctx, name)
	if errors.Is(err, fence.ErrStale) && now.Name == name {
		// The service has refused a second request for what the first one did, and a newer holder has entered since.
		return fmt.Errorf("s3fence: outcome unknown: the object is current, but something between here and the service repeats requests: %v", err)
	}
	if errors.Is(err, fence.ErrStale) || errors.Is(err, fence.ErrNoToken) || errors.Is(err, fence.ErrWrongLock) {
		return errors.Join(err, g.remove(ctx, name))
	}
	return err
}

// Delete leaves no current object. The fence stays, and Clean deletes the object when a newer
// token has entered. Its errors are those of Put.
func (g *Guard) Delete(ctx context.Context) error { return g.pointer.Set(ctx, "") }

// remove deletes an object that the pointer does not lead to, even if the lease is lost.
func (g *Guard) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	if _, err := g.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &g.bucket, Key: aws.String(g.prefix + name)}); err != nil {
		return fmt.Errorf("s3fence: %s%s is not in use and was not deleted: %w", g.prefix, name, err)
	}
	return nil
}

// Clean deletes the objects of tokens below the fence, but for the current one, and returns how
// many. What it deletes can never become current. It needs no token, and may run at any
// time; a reader whose object is gone must ask Current again. Objects of the newest token stay, also those that
// it has replaced itself.
func (g *Guard) Clean(ctx context.Context) (deleted int, err error) {
	s, err := g.pointer.read(ctx)
	if err != nil {
		return 0, err
	}
	in := &s3.ListObjectsV2Input{Bucket: &g.bucket, Prefix: &g.prefix}
	for {
		page, err := g.client.ListObjectsV2(ctx, in)
		if err != nil {
			return deleted, fmt.Errorf("s3fence: list %s: %w", g.prefix, err)
		}
		for _, o := range page.Contents {
			name := strings.TrimPrefix(aws.ToString(o.Key), g.prefix)
			if !obsolete(name, s) {
				continue
			}
			if err := g.remove(ctx, name); err != nil {
				return deleted, err
			}
			deleted++
		}
		if !aws.ToBool(page.IsTruncated) {
			return deleted, nil
		}
		in.ContinuationToken = page.NextContinuationToken
	}
}

// obsolete reports whether an object can neither be nor become the current one.
func obsolete(name string, s state) bool {
	digits, _, found := strings.Cut(name, "-")
	token, err := strconv.ParseUint(digits, 10, 63)
	below := strings.Contains(name, "/") // it may be of another guard, with a prefix such as reports/2026-11
	return found && err == nil && !below && name != s.Name && fencelock.Token(token) < s.Fence.Token
}
