// SPDX-License-Identifier: Apache-2.0

//go:build unix

package guarded

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/fencelock/fencelock/fence/fencetest"
	"github.com/fencelock/fencelock/fence/filefence"
	"github.com/fencelock/fencelock/fence/grpcfence"
	"github.com/fencelock/fencelock/fence/s3fence"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// The bucket of the value, and the user of the server.
const (
	s3Bucket = "guarded"
	s3Access = "fencelock"
	s3Secret = "not-a-secret"
)

func s3Client(url string) *s3.Client {
	return s3.New(s3.Options{BaseEndpoint: &url, Region: "us-east-1", UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: s3Access, SecretAccessKey: s3Secret}, nil
		})})
}

// s3Objects writes objects, and now and then deletes what older tokens left.
var s3Objects = guard{"s3fence",
	func(t *testing.T) string {
		server := servers.Test(t, func() (*servers.S3Server, error) { return servers.S3() })
		_, err := s3Client(server.Endpoint).CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(s3Bucket)})
		must.OK(t, err)
		return server.Endpoint
	},
	func(_ context.Context, url string) (*fencetest.Value, error) {
		client := s3Client(url)
		g, err := s3fence.New(client, s3Bucket, "value", lock)
		if err != nil {
			return nil, err
		}
		load := func(ctx context.Context, key string, err error) (string, error) {
			if err != nil || key == "" {
				return "", err
			}
			out, err := client.GetObject(ctx, &s3.GetObjectInput{Bucket: aws.String(s3Bucket), Key: &key})
			if err != nil {
				return "", err
			}
			defer out.Body.Close()
			text, err := io.ReadAll(out.Body)
			return string(text), err
		}
		return &fencetest.Value{
			Enter: func(ctx context.Context) (string, error) {
				key, err := g.Enter(ctx)
				return load(ctx, key, err)
			},
			Read: func(ctx context.Context) (string, error) {
				key, err := g.Current(ctx)
				return load(ctx, key, err)
			},
			Write: func(ctx context.Context, v string) error {
				if err := g.Put(ctx, &s3.PutObjectInput{Body: strings.NewReader(v)}); err != nil {
					return err
				}
				if rand.IntN(20) == 0 {
					_, _ = g.Clean(ctx) // the write was done, whatever becomes of this
				}
				return nil
			},
		}, nil
	}}

// grpcService is a service in the process of the test, with a file behind it.
var grpcService = guard{"grpcfence",
	func(t *testing.T) string {
		file, err := filefence.NewLocal(filepath.Join(t.TempDir(), "value"), lock)
		must.OK(t, err)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must.OK(t, err)
		server := grpc.NewServer(grpc.ChainUnaryInterceptor(grpcfence.UnaryServerInterceptor(nil)))
		server.RegisterService(&valueService, file)
		go func() { _ = server.Serve(l) }()
		t.Cleanup(server.Stop)
		return l.Addr().String()
	},
	func(_ context.Context, url string) (*fencetest.Value, error) {
		conn, err := grpc.NewClient("passthrough:///"+url, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithChainUnaryInterceptor(grpcfence.UnaryClientInterceptor(nil)))
		if err != nil {
			return nil, err
		}
		call := func(method string) func(ctx context.Context, v string) (string, error) {
			return func(ctx context.Context, v string) (string, error) {
				var reply wrapperspb.StringValue
				err := conn.Invoke(ctx, "/guarded.Value/"+method, wrapperspb.String(v), &reply)
				return reply.GetValue(), err
			}
		}
		enter, read, write := call("Enter"), call("Read"), call("Write")
		return &fencetest.Value{
			Enter: func(ctx context.Context) (string, error) { return enter(ctx, "") },
			Read:  func(ctx context.Context) (string, error) { return read(ctx, "") },
			Write: func(ctx context.Context, v string) error { _, err := write(ctx, v); return err },
		}, nil
	}}

// valueService has the three methods of a value.
var valueService = grpc.ServiceDesc{ServiceName: "guarded.Value", HandlerType: (*any)(nil), Methods: []grpc.MethodDesc{
	method("Enter", func(ctx context.Context, file *filefence.Local, _ string) (string, error) { return file.Enter(ctx) }),
	method("Read", func(ctx context.Context, file *filefence.Local, _ string) (string, error) { return file.Get(ctx) }),
	method("Write", func(ctx context.Context, file *filefence.Local, v string) (string, error) {
		return "", file.Set(ctx, v)
	}),
}}

// method is what protoc generates for a method from text to text.
func method(name string, do func(ctx context.Context, file *filefence.Local, v string) (string, error)) grpc.MethodDesc {
	return grpc.MethodDesc{MethodName: name,
		Handler: func(srv any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
			var req wrapperspb.StringValue
			if err := decode(&req); err != nil {
				return nil, err
			}
			file, ok := srv.(*filefence.Local)
			if !ok {
				return nil, errors.New("no file")
			}
			return intercept(ctx, &req, &grpc.UnaryServerInfo{Server: srv, FullMethod: "/guarded.Value/" + name},
				func(ctx context.Context, _ any) (any, error) {
					v, err := do(ctx, file, req.GetValue())
					return wrapperspb.String(v), err
				})
		}}
}
