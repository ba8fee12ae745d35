// SPDX-License-Identifier: Apache-2.0

//go:build unix

package servers

import (
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// S3Server is a server of the S3 protocol over a folder. Any region will do.
type S3Server struct {
	*Server
	// Endpoint is its URL. Buckets are part of the path.
	Endpoint string
	// AccessKey and SecretKey are those of its only user.
	AccessKey, SecretKey string
}

// S3 starts versitygw. args are further arguments of its command line.
func S3(args ...string) (*S3Server, error) {
	program, err := versitygw.find()
	if err != nil {
		return nil, err
	}
	return started(func() (*S3Server, error) {
		s, err := newServer("s3", "")
		if err != nil {
			return nil, err
		}
		data := filepath.Join(s.dir, "data")
		if err := os.Mkdir(data, 0o700); err != nil {
			return nil, err
		}
		m := &S3Server{Server: s, Endpoint: "http://" + s.Addr, AccessKey: "fencelock", SecretKey: "not-a-secret"}
		s.args = append([]string{program, "--port", s.Addr, "--access", m.AccessKey, "--secret", m.SecretKey,
			"--quiet", "--keep-alive", "--health", "/health"}, append(args, "posix", data)...)
		s.answers = func() bool {
			client := http.Client{Timeout: 5 * time.Second}
			resp, err := client.Get(m.Endpoint + "/health")
			if err != nil {
				return false
			}
			_ = resp.Body.Close()
			return resp.StatusCode == http.StatusOK
		}
		return m, nil
	})
}
