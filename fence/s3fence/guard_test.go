// SPDX-License-Identifier: Apache-2.0

package s3fence_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/filefence"
	"github.com/fencelock/fencelock/fence/s3fence"
	"github.com/fencelock/fencelock/internal/must"
)

// value is an object behind a guard. Another process has the client other.
func (s *server) value(client, other s3fence.Client, lock string) (*fencetest.Value, error) {
	prefix := fmt.Sprintf("values/%x", sha256.Sum256([]byte(lock)))
	g, err := s3fence.New(client, bucket, prefix, lock)
	if err != nil {
		return nil, err
	}
	return &fencetest.Value{
		Reopen: func(context.Context) (*fencetest.Value, error) { return s.value(other, client, lock) },
		Enter: func(ctx context.Context) (string, error) {
			key, err := g.Enter(ctx)
			return load(ctx, client, key, err)
		},
		Write: func(ctx context.Context, text string) error { return g.Put(ctx, body(text)) },
		Read: func(ctx context.Context) (string, error) {
			key, err := g.Current(ctx)
			return load(ctx, client, key, err)
		},
		LoseReply: func(ctx context.Context, text string) error {
			var d fencetest.Dialer
			g, err := s3fence.New(losing{s.connect(d.DialContext), &d}, bucket, prefix, lock)
			if err != nil {
				return err
			}
			return g.Put(ctx, body(text))
		},
	}, nil
}

func TestGuard(t *testing.T) {
	s := startServer(t)
	client, other := steps{s.connect(nil)}, steps{s.connect(nil)}
	fencetest.Run(t, &fencetest.Harness{Name: "S3",
		New:     func(_ context.Context, lock string) (*fencetest.Value, error) { return s.value(client, other, lock) },
		Restart: func(context.Context) error { return s.Restart() }})
}

// TestRoundTrips: a holder that reads and writes makes two more requests, and three more the first time.
func TestRoundTrips(t *testing.T) {
	s := startServer(t)
	client := steps{s.connect(nil)}
	v, err := s.value(client, client, "counted")
	must.OK(t, err)
	ctx := fence.With(t.Context(), fence.Mark{Lock: "counted", Token: 512})
	guarded := func(ctx context.Context) error {
		_, err := v.Enter(ctx)
		return errors.Join(err, v.Write(ctx, "x"))
	}
	must.OK(t, v.Write(ctx, "x")) // so that there is something to read
	v, err = s.value(client, client, "counted")
	must.OK(t, err)
	for what, want := range []int{5, 4} {
		if got, err := fencetest.Trips(ctx, guarded); got != want || err != nil {
			t.Errorf("%d: %d requests, %v, want %d", what, got, err, want)
		}
	}
}

// TestFilesBehindThePointer: for files that several hosts share.
func TestFilesBehindThePointer(t *testing.T) {
	s := startServer(t)
	client, second := steps{s.connect(nil)}, steps{s.connect(nil)}
	dir := t.TempDir()
	var open func(client s3fence.Client, lock string) (*fencetest.Value, error)
	open = func(client s3fence.Client, lock string) (*fencetest.Value, error) {
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(lock)))
		path := filepath.Join(dir, hash)
		p, err := s3fence.NewPointer(client, bucket, "pointers/"+hash+"/current", lock)
		if err != nil {
			return nil, err
		}
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		d, err := filefence.New(path, lock, p)
		if err != nil {
			return nil, err
		}
		load := func(folder string, err error) (string, error) {
			if err != nil || folder == "" {
				return "", err
			}
			text, err := os.ReadFile(filepath.Join(folder, "v"))
			return string(text), err
		}
		return &fencetest.Value{
			Reopen: func(context.Context) (*fencetest.Value, error) { return open(second, lock) },
			Enter:  func(ctx context.Context) (string, error) { return load(d.Enter(ctx)) },
			Read:   func(ctx context.Context) (string, error) { return load(d.Current(ctx)) },
			Write: func(ctx context.Context, value string) error {
				return d.Publish(ctx, func(folder string) error { return os.WriteFile(filepath.Join(folder, "v"), []byte(value), 0o600) })
			},
			LoseReply: func(ctx context.Context, value string) error {
				var dialer fencetest.Dialer
				v, err := open(losing{s.connect(dialer.DialContext), &dialer}, lock)
				if err != nil {
					return err
				}
				return v.Write(ctx, value)
			},
		}, nil
	}
	fencetest.Run(t, &fencetest.Harness{Name: "files behind S3",
		New:     func(_ context.Context, lock string) (*fencetest.Value, error) { return open(client, lock) },
		Restart: func(context.Context) error { return s.Restart() }})
}

// keys returns what is below a prefix.
func (s *server) keys(prefix string) (keys []string) {
	s.t.Helper()
	out, err := s.connect(nil).ListObjectsV2(s.t.Context(), &s3.ListObjectsV2Input{Bucket: aws.String(bucket), Prefix: &prefix})
	must.OK(s.t, err)
	for _, o := range out.Contents {
		keys = append(keys, *o.Key)
	}
	return keys
}

func with(t *testing.T, token fencelock.Token) context.Context {
	return fence.With(t.Context(), fence.Mark{Lock: "a", Token: token, Holder: fmt.Sprint("holder of ", token)})
}

// TestRefusedAndFailedObjectsAreDeleted, even if the lease is lost.
func TestRefusedAndFailedObjectsAreDeleted(t *testing.T) {
	s := startServer(t)
	g, err := s3fence.New(s.connect(nil), bucket, "a/", "a")
	must.OK(t, err)
	must.OK(t, g.Put(with(t, 768), body("x")))
	if err := g.Put(with(t, 512), body("late")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a late object: %v", err)
	}
	failed := errors.New("disk full")
	ctx, cancel := context.WithCancel(with(t, 768))
	err = g.Publish(ctx, func(ctx context.Context, key string) error {
		in := body("half")
		in.Bucket, in.Key = aws.String(bucket), &key
		_, err := s.connect(nil).PutObject(ctx, in)
		must.OK(t, err)
		cancel()
		return failed
	})
	if !errors.Is(err, failed) || !strings.Contains(err.Error(), "nothing was published") {
		t.Errorf("an object that failed: %v", err)
	}
	if keys := s.keys("a/"); len(keys) != 2 {
		t.Errorf("there are %v, want the pointer and one object", keys)
	}
}

// TestCleanDeletesWhatOlderTokensLeft, and nothing that is or may become current.
func TestCleanDeletesWhatOlderTokensLeft(t *testing.T) {
	s := startServer(t)
	g, err := s3fence.New(s.connect(nil), bucket, "a", "a")
	must.OK(t, err)
	clean := func(want, left int) {
		t.Helper()
		got, err := g.Clean(t.Context())
		if keys := s.keys("a/"); got != want || err != nil || len(keys) != left+1 {
			t.Errorf("%d were deleted, %v, and %v are left; want %d and %d objects", got, err, keys, want, left)
		}
	}
	if got, err := g.Clean(t.Context()); got != 0 || err != nil { // no pointer
		t.Errorf("nothing is there: %d, %v", got, err)
	}
	must.OK(t, g.Put(with(t, 512), body("1")))
	must.OK(t, g.Put(with(t, 512), body("2")))
	clean(0, 2) // the newest token may be at work
	// A newer holder enters: what is current stays.
	_, err = g.Enter(with(t, 1024))
	must.OK(t, err)
	clean(1, 1)
	must.OK(t, g.Put(with(t, 1024), body("3")))
	clean(1, 1)
	if text, err := load(t.Context(), s.connect(nil), second(g.Current(t.Context())), nil); text != "3" || err != nil {
		t.Errorf("the object is %q, %v", text, err)
	}
	// Without an object the fence stays.
	must.OK(t, g.Delete(with(t, 1024)))
	if key, err := g.Current(t.Context()); key != "" || err != nil {
		t.Errorf("after a delete: %q, %v", key, err)
	}
	if err := g.Put(with(t, 512), body("late")); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a late object after a delete: %v", err)
	}
	_, err = g.Enter(with(t, 2048))
	must.OK(t, err)
	clean(1, 0)
	if err := g.Delete(with(t, 1024)); !errors.Is(err, fence.ErrStale) {
		t.Errorf("a late delete: %v", err)
	}
}

func second[T any](v T, _ error) T { return v }

// TestEnteringSettlesALostReply: a write of the same holder that is still under way fails when the
// holder has entered again.
func TestEnteringSettlesALostReply(t *testing.T) {
	s := startServer(t)
	late := &holding{Client: s.connect(nil), held: make(chan struct{}), send: make(chan struct{})}
	g, err := s3fence.New(late, bucket, "a", "a")
	must.OK(t, err)
	again, err := s3fence.New(s.connect(nil), bucket, "a", "a")
	must.OK(t, err)
	must.OK(t, again.Put(with(t, 512), body("before")))
	done := make(chan error, 1)
	go func() { done <- g.Put(with(t, 512), body("after")) }()
	<-late.held
	key, err := again.Enter(with(t, 512))
	must.OK(t, err)
	close(late.send)
	// The guard tries again by itself, which is the caller's will: only the request that was under way has failed.
	must.OK(t, <-done)
	if late.failed == nil || errorCode(late.failed) != "PreconditionFailed" {
		t.Errorf("the write that was under way: %v, want that it fails", late.failed)
	}
	if now, err := again.Current(t.Context()); now == key || err != nil {
		t.Errorf("the second try is not there: %q, %v", now, err)
	}
}

// holding stops the first write of the pointer on its way.
type holding struct {
	s3fence.Client
	once       sync.Once
	held, send chan struct{}
	failed     error
}

func (h *holding) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	first := false
	if strings.HasSuffix(*in.Key, "/current") {
		h.once.Do(func() { first = true })
	}
	if first {
		close(h.held)
		<-h.send
	}
	out, err := h.Client.PutObject(ctx, in, opts...)
	if first {
		h.failed = err
	}
	return out, err
}

// TestFenceIsSetBack: what a guard remembers of the pointer does not keep it from seeing that.
func TestFenceIsSetBack(t *testing.T) {
	s := startServer(t)
	g, err := s3fence.New(s.connect(nil), bucket, "a", "a")
	must.OK(t, err)
	must.OK(t, g.Put(with(t, 768), body("x")))
	var stale *fence.StaleError
	if _, err := g.Enter(with(t, 512)); !errors.As(err, &stale) || stale.Newer.Token != 768 || stale.Newer.Holder != "holder of 768" {
		t.Errorf("an older token: %v", err)
	}
	setBack := func() {
		_, err := s.connect(nil).DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String(bucket), Key: aws.String("a/current")})
		must.OK(t, err)
	}
	must.OK(t, g.Put(with(t, 768), body("x")))
	setBack() // the guard remembers a state that refuses the token
	if key, err := g.Enter(with(t, 512)); key != "" || err != nil {
		t.Errorf("an operator has deleted the pointer: %q, %v", key, err)
	}
	setBack() // and one that admits it
	must.OK(t, g.Put(with(t, 512), body("x")))
}

// TestWhatIsNoPointer must not count as a fence that nobody has raised.
func TestWhatIsNoPointer(t *testing.T) {
	s := startServer(t)
	g, err := s3fence.New(s.connect(nil), bucket, "a", "a")
	must.OK(t, err)
	for _, text := range []string{"", "{}", "nonsense", `{"fence":{"lock":"a"}}`, `{"fence":{"token":1}}`} {
		in := body(text)
		in.Bucket, in.Key = aws.String(bucket), aws.String("a/current")
		_, err := s.connect(nil).PutObject(t.Context(), in)
		must.OK(t, err)
		if _, err := g.Enter(with(t, 512)); err == nil || !strings.Contains(err.Error(), "is no pointer") {
			t.Errorf("%q: %v", text, err)
		}
	}
	missing, err := s3fence.New(s.connect(nil), "no-such-bucket", "a", "a")
	must.OK(t, err)
	if _, err := missing.Enter(with(t, 512)); errorCode(err) != "NoSuchBucket" {
		t.Errorf("no bucket: %v", err)
	}
	if key, err := missing.Current(t.Context()); errorCode(err) != "NoSuchBucket" {
		t.Errorf("no bucket: %q, %v", key, err)
	}
	if err := missing.Check(t.Context()); errorCode(err) != "NoSuchBucket" || errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("check without a bucket: %v", err)
	}
}

func TestBadOptionsAreErrors(t *testing.T) {
	client := &s3.Client{}
	for _, args := range [][3]string{{"", "p", "l"}, {"b", "", "l"}, {"b", "/", "l"}, {"b", "p", ""}} {
		if _, err := s3fence.New(client, args[0], args[1], args[2]); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if _, err := s3fence.New(nil, "b", "p", "l"); err == nil {
		t.Error("no client: no error")
	}
	if _, err := s3fence.NewPointer(client, "b", "", "l"); err == nil {
		t.Error("a pointer without a key: no error")
	}
	g, err := s3fence.New(client, "b", "p", "a")
	must.OK(t, err)
	for what, in := range map[string]*s3.PutObjectInput{"none": nil, "bucket": {Bucket: aws.String("b")}, "key": {Key: aws.String("k")}} {
		if err := g.Put(with(t, 1), in); err == nil {
			t.Errorf("an input with %s: no error", what)
		}
	}
}

// TestCleanLeavesANestedGuardAlone: the name of its prefix may begin like that of an object of a token.
func TestCleanLeavesANestedGuardAlone(t *testing.T) {
	s := startServer(t)
	outer, err := s3fence.New(s.connect(nil), bucket, "reports", "a")
	must.OK(t, err)
	inner, err := s3fence.New(s.connect(nil), bucket, "reports/2026-11", "a")
	must.OK(t, err)
	must.OK(t, inner.Put(with(t, 512), body("november")))
	must.OK(t, outer.Put(with(t, 4096), body("all")))
	if n, err := outer.Clean(t.Context()); n != 0 || err != nil {
		t.Errorf("%d were deleted, %v", n, err)
	}
	if keys := s.keys("reports/2026-11/"); len(keys) != 2 {
		t.Errorf("of the nested guard %v are left, want its pointer and its object", keys)
	}
}

// repeating is a proxy that sends the first write of a pointer twice. Another holder comes in between.
type repeating struct {
	s3fence.Client
	once    sync.Once
	between func()
}

func (r *repeating) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	out, err := r.Client.PutObject(ctx, in, opts...)
	if strings.HasSuffix(*in.Key, "/current") && err == nil {
		r.once.Do(func() {
			r.between()
			_, _ = in.Body.(io.Seeker).Seek(0, io.SeekStart)
			out, err = r.Client.PutObject(ctx, in, opts...)
		})
	}
	return out, err
}

// TestCurrentObjectIsNotDeleted: a proxy repeats the write of the pointer, so what was done looks refused.
func TestCurrentObjectIsNotDeleted(t *testing.T) {
	s := startServer(t)
	newer, err := s3fence.New(s.connect(nil), bucket, "a", "a")
	must.OK(t, err)
	g, err := s3fence.New(&repeating{Client: s.connect(nil), between: func() { _, err := newer.Enter(with(t, 768)); must.OK(t, err) }}, bucket, "a", "a")
	must.OK(t, err)
	err = g.Put(with(t, 512), body("x"))
	if errors.Is(err, fence.ErrStale) {
		t.Errorf("the object was published: %v", err)
	}
	if text, err := load(t.Context(), s.connect(nil), second(newer.Current(t.Context())), nil); text != "x" || err != nil {
		t.Errorf("the current object is %q, %v", text, err)
	}
}

// asking notes how often the SDK may send the writes of a pointer.
type asking struct {
	s3fence.Client
	attempts []int
}

func (a *asking) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if strings.HasSuffix(*in.Key, "/current") {
		o := s3.Options{Retryer: aws.NopRetryer{}}
		o.Retryer = retry.AddWithMaxAttempts(o.Retryer, 3)
		for _, opt := range opts {
			opt(&o)
		}
		a.attempts = append(a.attempts, o.Retryer.MaxAttempts())
	}
	return a.Client.PutObject(ctx, in, opts...)
}

func TestPointerIsSentOnce(t *testing.T) {
	s := startServer(t)
	a := &asking{Client: s.connect(nil)}
	g, err := s3fence.New(a, bucket, "a", "a")
	must.OK(t, err)
	must.OK(t, g.Put(with(t, 512), body("x")))
	must.OK(t, g.Put(with(t, 512), body("y")))
	if !slices.Equal(a.attempts, []int{1, 1}) {
		t.Errorf("the SDK may send them %v times", a.attempts)
	}
}
