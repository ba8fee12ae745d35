// SPDX-License-Identifier: Apache-2.0

package s3fence

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/fencelock/fencelock/fence"
)

// Client is what a guard needs of the SDK: *s3.Client has it.
type Client interface {
	GetObject(ctx context.Context, in *s3.GetObjectInput, opts ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, opts ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	ListObjectsV2(ctx context.Context, in *s3.ListObjectsV2Input, opts ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

// Pointer is a name in an object, behind a guard. It is a filefence.Pointer, for files that
// several hosts share; a Guard has one of its own. It is safe for concurrent use and needs
// no closing.
type Pointer struct {
	client            Client
	bucket, key, lock string

	mu   sync.Mutex
	seen *state // as it was last seen, nil if it is not known
}

// state is what the object holds.
type state struct {
	Name  string     `json:"name"`
	Fence fence.Mark `json:"fence"`
	// Nonce makes the body, and so the ETag, a new one with every write.
	Nonce string `json:"nonce"`

	etag string // of the object, empty if there is none
}

const (
	// mostConflicts is how often a conditional write is tried. Each failure means that another
	// call was admitted, or that the service does not do what it should.
	mostConflicts = 20
	// mostBytes is far more than a pointer has.
	mostBytes = 64 << 10
)

// NewPointer returns a pointer in the object with that key, which must not be used for
// anything else. lock is the name of the lock whose token is checked. It does no I/O.
func NewPointer(client Client, bucket, key, lock string) (*Pointer, error) {
	if client == nil || bucket == "" || key == "" || lock == "" {
		return nil, errors.New("s3fence: a pointer needs a client, a bucket, a key and the name of a lock")
	}
	return &Pointer{client: client, bucket: bucket, key: key, lock: lock}, nil
}

// Enter raises the fence to the token that ctx carries, and returns the name, empty at first.
func (p *Pointer) Enter(ctx context.Context) (string, error) {
	s, err := p.write(ctx, func(*state) {})
	if err != nil {
		return "", err
	}
	return s.Name, nil
}

// Set replaces the name if the token that ctx carries is admitted. Its errors are those of Guard.Put.
func (p *Pointer) Set(ctx context.Context, name string) error {
	_, err := p.set(ctx, name)
	return err
}

func (p *Pointer) set(ctx context.Context, name string) (state, error) {
	return p.write(ctx, func(s *state) { s.Name = name })
}

// Get returns the name. It needs no token.
func (p *Pointer) Get(ctx context.Context) (string, error) {
	s, err := p.read(ctx)
	return s.Name, err
}

// write changes the object under the token that ctx carries, and returns what it holds then, also
// if that refuses the token.
func (p *Pointer) write(ctx context.Context, change func(*state)) (state, error) {
	given, err := fence.FromContext(ctx, p.lock)
	if err != nil {
		return state{}, err
	}
	for try := range mostConflicts {
		if err := pause(ctx, try); err != nil {
			return state{}, err
		}
		old, err := p.admitting(ctx, given)
		if err != nil {
			return old, err
		}
		next := state{Name: old.Name, Fence: given, Nonce: rand.Text()}
		change(&next)
		switch next.etag, err = p.put(ctx, next, old.etag); {
		case err == nil:
			p.remember(&next)
			return next, nil
		case !isConflict(err):
			return state{}, fmt.Errorf("s3fence: outcome unknown: %w", err)
		}
	}
	return state{}, fmt.Errorf("s3fence: the pointer %s was not written: %d times another write came first; "+
		"if there was none, see whether Guard.Check passes", p.key, mostConflicts)
}

// admitting returns a state that admits a token. What was seen last will do: if it has changed since,
// the write fails. But it is not believed when it refuses, as somebody may have set the fence back.
func (p *Pointer) admitting(ctx context.Context, given fence.Mark) (state, error) {
	p.mu.Lock()
	seen := p.seen
	p.seen = nil // if the write fails it is of no use
	p.mu.Unlock()
	if seen != nil && fence.Check(seen.Fence, given) == nil {
		return *seen, nil
	}
	s, err := p.read(ctx)
	if err != nil {
		return state{}, err
	}
	if err := fence.Check(s.Fence, given); err != nil {
		p.remember(&s)
		return s, err
	}
	return s, nil
}

func (p *Pointer) remember(s *state) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen = s
}

// read returns what the object holds, a zero state if there is none. An object that cannot be read
// must not count as none: then every token would be admitted.
func (p *Pointer) read(ctx context.Context) (state, error) {
	out, err := p.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &p.bucket, Key: &p.key})
	if code(err) == "NoSuchKey" { // and not NoSuchBucket
		return state{}, nil
	}
	if err != nil {
		return state{}, fmt.Errorf("s3fence: read the pointer: %w", err)
	}
	defer out.Body.Close()
	var s state
	body, err := io.ReadAll(io.LimitReader(out.Body, mostBytes))
	if err != nil {
		return state{}, fmt.Errorf("s3fence: read the pointer: %w", err)
	}
	if err := json.Unmarshal(body, &s); err != nil || s.Fence.Token <= 0 || s.Fence.Lock == "" {
		return state{}, fmt.Errorf("s3fence: the object %s in bucket %s is no pointer of this package; choose another key, or delete the object if nothing needs it", p.key, p.bucket)
	}
	if s.etag = aws.ToString(out.ETag); s.etag == "" {
		return state{}, fmt.Errorf("s3fence: the service returned no ETag for %s; conditional writes need one", p.key)
	}
	return s, nil
}

// put writes the object if its ETag is still old, or if there is none and old is empty.
func (p *Pointer) put(ctx context.Context, s state, old string) (etag string, err error) {
	body, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	return putIf(ctx, p.client, p.bucket, p.key, body, old)
}

func putIf(ctx context.Context, client Client, bucket, key string, body []byte, old string) (etag string, err error) {
	in := &s3.PutObjectInput{Bucket: &bucket, Key: &key, Body: bytes.NewReader(body), ContentType: aws.String("application/json")}
	if old == "" {
		in.IfNoneMatch = aws.String("*")
	} else {
		in.IfMatch = &old
	}
	out, err := client.PutObject(ctx, in, sendOnce)
	if err != nil {
		return "", err
	}
	if etag = aws.ToString(out.ETag); etag == "" {
		return "", fmt.Errorf("s3fence: the service returned no ETag for %s; conditional writes need one", key)
	}
	return etag, nil
}

// sendOnce keeps the SDK from sending a conditional write again after a lost reply. The second
// would fail because of the first, and if a newer holder came in between, nobody could say
// any more whether the first was done.
func sendOnce(o *s3.Options) { o.Retryer = aws.NopRetryer{} }

// isConflict reports whether a conditional write was surely not done.
func isConflict(err error) bool {
	switch code(err) {
	case "PreconditionFailed", "ConditionalRequestConflict":
		return true
	case "NoSuchKey": // If-Match, and the object is gone
		return true
	}
	var answer interface{ HTTPStatusCode() int }
	return errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusPreconditionFailed
}

// code returns the error code that the service answered, or "".
func code(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}

// pause waits before another try, so that two that conflict do not do so again.
func pause(ctx context.Context, try int) error {
	if try == 0 {
		return nil
	}
	timer := time.NewTimer(mathrand.N(time.Millisecond << min(try, 8)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("s3fence: nothing was written: %w", context.Cause(ctx))
	}
}
