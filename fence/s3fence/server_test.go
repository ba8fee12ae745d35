// SPDX-License-Identifier: Apache-2.0

package s3fence_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/s3fence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

const bucket = "guarded"

// server is a running S3 server with a bucket.
type server struct {
	*servers.S3Server
	t *testing.T
}

func startServer(t *testing.T) *server {
	t.Helper()
	s := &server{servers.Test(t, func() (*servers.S3Server, error) { return servers.S3() }), t}
	_, err := s.connect(nil).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)})
	must.OK(t, err)
	return s
}

// connect returns a client with the settings that the SDK has by default.
func (s *server) connect(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *s3.Client {
	return connect(s.Endpoint, s.AccessKey, s.SecretKey, dial)
}

func connect(endpoint, access, secret string, dial func(ctx context.Context, network, addr string) (net.Conn, error)) *s3.Client {
	return s3.New(s3.Options{BaseEndpoint: &endpoint, Region: "us-east-1", UsePathStyle: true,
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial}},
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: access, SecretAccessKey: secret}, nil
		})})
}

// steps makes every request a step of fencetest.
type steps struct{ s3fence.Client }

func (s steps) GetObject(ctx context.Context, in *s3.GetObjectInput, opts ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	fencetest.Step(ctx)
	return s.Client.GetObject(ctx, in, opts...)
}

func (s steps) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	fencetest.Step(ctx)
	return s.Client.PutObject(ctx, in, opts...)
}

func (s steps) DeleteObject(ctx context.Context, in *s3.DeleteObjectInput, opts ...func(*s3.Options)) (*s3.DeleteObjectOutput, error) {
	fencetest.Step(ctx)
	return s.Client.DeleteObject(ctx, in, opts...)
}

// losing loses the reply to a write of the pointer.
type losing struct {
	s3fence.Client
	d *fencetest.Dialer
}

func (l losing) PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if strings.HasSuffix(*in.Key, "/current") {
		l.d.LoseNextReply(ctx)
	}
	return l.Client.PutObject(ctx, in, opts...)
}

// load reads an object, "" if there is no key.
func load(ctx context.Context, client s3fence.Client, key string, err error) (string, error) {
	if err != nil || key == "" {
		return "", err
	}
	out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(bucket), Key: &key})
	if err != nil {
		return "", err
	}
	defer out.Body.Close()
	text, err := io.ReadAll(out.Body)
	return string(text), err
}

func body(text string) *s3.PutObjectInput { return &s3.PutObjectInput{Body: strings.NewReader(text)} }

func errorCode(err error) string {
	var answer smithy.APIError
	if errors.As(err, &answer) {
		return answer.ErrorCode()
	}
	return ""
}
