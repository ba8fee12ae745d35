// SPDX-License-Identifier: Apache-2.0

package s3fence_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/s3fence"
	"github.com/fencelock/fencelock/internal/must"
)

// object is one object for all holders, with the fence in its metadata, as people write it.
type object struct {
	client s3fence.Client
	key    string
	lock   string
	refuse func(kept, given fence.Mark) bool
	match  bool // writes only if the ETag is as it was read
	inBody bool // the fence is in the body, before the text
}

// contents are what is there: the text, the fence and the ETag.
func (o *object) contents(ctx context.Context) (text string, kept fence.Mark, etag string, err error) {
	out, err := o.client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(bucket), Key: &o.key})
	if errorCode(err) == "NoSuchKey" {
		return "", kept, "", nil
	}
	if err != nil {
		return "", kept, "", err
	}
	_ = out.Body.Close()
	text, err = load(ctx, o.client, o.key, nil)
	token := out.Metadata["token"]
	if o.inBody {
		token, text, _ = strings.Cut(text, "\n")
	}
	number, _ := strconv.ParseInt(token, 10, 64)
	return text, fence.Mark{Lock: o.lock, Token: fencelock.Token(number)}, *out.ETag, err
}

// change writes what it makes of the text.
func (o *object) change(ctx context.Context, to func(old string) string) (string, error) {
	given, err := fence.FromContext(ctx, o.lock)
	if err != nil {
		return "", err
	}
	old, kept, etag, err := o.contents(ctx)
	if err != nil {
		return "", err
	}
	if o.refuse(kept, given) {
		return "", &fence.StaleError{Given: given}
	}
	text, metadata := to(old), map[string]string{"token": given.Token.String()}
	if o.inBody {
		text, metadata = given.Token.String()+"\n"+text, nil
	}
	in := &s3.PutObjectInput{Bucket: aws.String(bucket), Key: &o.key, Body: strings.NewReader(text), Metadata: metadata}
	switch {
	case o.match && etag == "":
		in.IfNoneMatch = aws.String("*")
	case o.match:
		in.IfMatch = &etag
	}
	_, err = o.client.PutObject(ctx, in)
	if errorCode(err) == "PreconditionFailed" {
		return o.change(ctx, to)
	}
	return old, err
}

// value is the object as a value of fencetest.
func (o *object) value(v *fencetest.Value) {
	v.Enter = func(ctx context.Context) (string, error) {
		return o.change(ctx, func(old string) string { return old })
	}
	v.Write = func(ctx context.Context, text string) error {
		_, err := o.change(ctx, func(string) string { return text })
		return err
	}
	v.Read = func(ctx context.Context) (string, error) {
		text, _, _, err := o.contents(ctx)
		return text, err
	}
}

func older(kept, given fence.Mark) bool { return given.Token < kept.Token }

// wrongGuards are what people write.
var wrongGuards = []struct {
	name, caught string
	object       object
}{
	{"no guard at all", "G2/delayed-writer", object{refuse: func(_, _ fence.Mark) bool { return false }}},
	{"If-Match without a token", "G2/delayed-writer", object{match: true, refuse: func(_, _ fence.Mark) bool { return false }}},
	{"check, then put", "G4/write-in-steps", object{inBody: true, refuse: older}},
	// The ETag is that of the body alone: a fence that was raised in the metadata does not change it.
	{"If-Match, and the fence in the metadata", "G4/write-in-steps", object{match: true, refuse: older}},
	{"> for >=", "G1/retry", object{match: true, inBody: true, refuse: func(kept, given fence.Mark) bool { return given.Token <= kept.Token }}},
	{"tokens as text", "G6/numbers", object{match: true, inBody: true,
		refuse: func(kept, given fence.Mark) bool { return kept.Token > 0 && given.Token.String() < kept.Token.String() }}},
}

func TestWrongGuardsAreRefused(t *testing.T) {
	s := startServer(t)
	client := steps{s.connect(nil)}
	for _, w := range wrongGuards {
		t.Run(w.name, func(t *testing.T) {
			fencetest.Refuses(t, &fencetest.Harness{Name: w.name + " on S3",
				New: func(_ context.Context, lock string) (*fencetest.Value, error) {
					o := w.object
					o.client, o.lock, o.key = client, lock, fmt.Sprintf("wrong/%x", sha256.Sum256([]byte(lock)))
					v := &fencetest.Value{}
					o.value(v)
					return v, nil
				}}, w.caught)
		})
	}
	// The right one of that kind, to show that the mistakes are the mistakes: the fence in the body of the only object.
	right := object{match: true, inBody: true, refuse: older}
	for _, c := range fencetest.Cases() {
		if c.Clause.ID != "G2" && c.Clause.ID != "G3" && c.Clause.ID != "G4" {
			continue
		}
		r := c.Check(t.Context(), &fencetest.Harness{Name: "right", New: func(_ context.Context, lock string) (*fencetest.Value, error) {
			o := right
			o.client, o.lock, o.key = client, lock, fmt.Sprintf("right/%x", sha256.Sum256([]byte(lock)))
			v := &fencetest.Value{}
			o.value(v)
			return v, nil
		}})
		for _, f := range r.Failures {
			t.Error(f)
		}
	}
}

// resent lets the SDK send a conditional write again, as it does by default.
type resent struct{ losing }

func (r resent) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	return r.losing.PutObject(ctx, in)
}

// readFirst reads before it raises the fence.
func readFirst(v *fencetest.Value) {
	enter, read := v.Enter, v.Read
	v.Enter = func(ctx context.Context) (string, error) {
		text, err := read(ctx)
		if err != nil {
			return "", err
		}
		_, err = enter(ctx)
		return text, err
	}
}

// TestWrongUsesAreRefused: of the guard itself.
func TestWrongUsesAreRefused(t *testing.T) {
	s := startServer(t)
	client := steps{s.connect(nil)}
	for _, w := range []struct {
		name, caught string
		change       func(lock string, v *fencetest.Value)
	}{
		{"read before the fence", "G3/entry-in-steps", func(_ string, v *fencetest.Value) { readFirst(v) }},
		{"sent again by the SDK", "G7/lost-reply-overtaken", func(lock string, v *fencetest.Value) {
			enter := v.Enter
			v.Enter = func(ctx context.Context) (string, error) { // and writes: as long as the pointer is there, the guard sees that its write was done
				text, err := enter(ctx)
				if err == nil && text != "" {
					err = v.Write(ctx, text)
				}
				return text, err
			}
			v.LoseReply = func(ctx context.Context, text string) error {
				var d fencetest.Dialer
				g, err := s3fence.New(resent{losing{s.connect(d.DialContext), &d}}, bucket, fmt.Sprintf("values/%x", sha256.Sum256([]byte(lock))), lock)
				must.OK(t, err)
				return g.Put(ctx, body(text))
			}
		}},
	} {
		t.Run(w.name, func(t *testing.T) {
			fencetest.Refuses(t, &fencetest.Harness{Name: w.name + " on S3",
				New: func(_ context.Context, lock string) (*fencetest.Value, error) {
					v, err := s.value(client, client, lock)
					if err == nil {
						w.change(lock, v)
					}
					return v, err
				}}, w.caught)
		})
	}
}
