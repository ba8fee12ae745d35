// SPDX-License-Identifier: Apache-2.0

package s3fence_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/fencelock/fencelock/fence/s3fence"
	"github.com/fencelock/fencelock/internal/must"
)

// TestServerChecksAndWritesInOneStep: of all writes on the condition of one ETag, one is done. Without
// that no guard can be built on the server, and the other tests prove nothing.
func TestServerChecksAndWritesInOneStep(t *testing.T) {
	s := startServer(t)
	const writers, rounds = 8, 40
	var mu sync.Mutex
	replaced := map[string]string{} // by ETag: what took its place
	done := 0
	write := func(client *s3.Client, key, text, old string) {
		in := body(text)
		in.Bucket, in.Key, in.IfMatch = aws.String(bucket), &key, &old
		if old == "" {
			in.IfMatch, in.IfNoneMatch = nil, aws.String("*")
		}
		_, err := client.PutObject(t.Context(), in)
		mu.Lock()
		defer mu.Unlock()
		switch before, again := replaced[key+old]; {
		case err == nil && again:
			t.Errorf("ETag %q of %s was replaced by %s and by %s", old, key, before, text)
		case err == nil:
			replaced[key+old] = text
			done++
		case errorCode(err) != "PreconditionFailed" && errorCode(err) != "ConditionalRequestConflict":
			t.Errorf("write %s: %v", text, err)
		}
	}
	var all sync.WaitGroup
	for i := range writers {
		client := s.connect(nil)
		all.Go(func() {
			for round := range rounds {
				key := fmt.Sprint("attacked/", round%4)
				out, err := client.HeadObject(t.Context(), &s3.HeadObjectInput{Bucket: aws.String(bucket), Key: &key})
				old := ""
				if err == nil {
					old = *out.ETag
				}
				write(client, key, fmt.Sprintf("%d of writer %d", round, i), old)
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d writes were done", done, writers*rounds)
	if done < rounds || done > writers*rounds-writers {
		t.Errorf("%d of %d writes were done: they did not meet", done, writers*rounds)
	}
}

// ignoring is a service, or a proxy, that ignores conditions.
type ignoring struct {
	s3fence.Client
	match, noneMatch, absent bool
}

func (i ignoring) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	to := *in
	if _, err := i.GetObject(ctx, &s3.GetObjectInput{Bucket: in.Bucket, Key: in.Key}); i.match || i.absent && err != nil {
		to.IfMatch = nil
	}
	if i.noneMatch {
		to.IfNoneMatch = nil
	}
	return i.Client.PutObject(ctx, &to, opts...)
}

// TestCheckFindsAServiceThatIgnoresConditions, and leaves nothing behind.
func TestCheckFindsAServiceThatIgnoresConditions(t *testing.T) {
	s := startServer(t)
	for what, tt := range map[string]struct {
		client s3fence.Client
		fits   bool
	}{
		"all is well":                    {s.connect(nil), true},
		"no If-Match":                    {ignoring{Client: s.connect(nil), match: true}, false},
		"no If-None-Match":               {ignoring{Client: s.connect(nil), noneMatch: true}, false},
		"no If-Match without an object":  {ignoring{Client: s.connect(nil), absent: true}, false},
		"answers from a cache, or later": {&lagging{Client: s.connect(nil)}, false},
	} {
		g, err := s3fence.New(tt.client, bucket, "checked", "a")
		must.OK(t, err)
		if err := g.Check(t.Context()); (err == nil) != tt.fits || err != nil && !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if keys := s.keys("checked/"); keys != nil {
		t.Errorf("left behind: %v", keys)
	}
}

// lagging returns what was there at the beginning.
type lagging struct {
	s3fence.Client
	first *s3.GetObjectOutput
}

func (l *lagging) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	out, err := l.Client.PutObject(ctx, in, opts...)
	if err == nil && l.first == nil {
		l.first, err = l.Client.GetObject(ctx, &s3.GetObjectInput{Bucket: in.Bucket, Key: in.Key})
	}
	return out, err
}

func (l *lagging) GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	return l.first, nil
}

// conflicting answers some writes of the pointer with an error, without doing them.
type conflicting struct {
	s3fence.Client
	code  string
	times int
}

func (c *conflicting) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if strings.HasSuffix(*in.Key, "/current") && c.times > 0 {
		c.times--
		return nil, &smithy.GenericAPIError{Code: c.code, Message: "by a test"}
	}
	return c.Client.PutObject(ctx, in, opts...)
}

// TestConflictsAreTriedAgain, and other errors are not: their outcome is unknown.
func TestConflictsAreTriedAgain(t *testing.T) {
	s := startServer(t)
	for _, tt := range []struct {
		code  string
		times int
		want  string // in the error
	}{
		{"PreconditionFailed", 3, ""},
		{"ConditionalRequestConflict", 3, ""},
		{"NoSuchKey", 3, ""},
		{"PreconditionFailed", 1000, "was not written"},
		{"InternalError", 1, "outcome unknown"},
		{"SlowDown", 1, "outcome unknown"},
	} {
		c := &conflicting{s.connect(nil), tt.code, tt.times}
		g, err := s3fence.New(c, bucket, "conflicts", "a")
		must.OK(t, err)
		_, err = g.Enter(with(t, 512))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d times %s: %v", tt.times, tt.code, err)
		}
	}
	ctx, cancel := context.WithCancelCause(with(t, 512))
	c := &conflicting{s.connect(nil), "PreconditionFailed", 1000}
	g, err := s3fence.New(c, bucket, "conflicts", "a")
	must.OK(t, err)
	lost := errors.New("the lease is lost")
	cancel(lost)
	if _, err := g.Enter(ctx); err == nil {
		t.Error("no error after the end of the context")
	}
}
