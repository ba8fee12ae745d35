// SPDX-License-Identifier: Apache-2.0

package goredis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
	"github.com/redis/go-redis/v9"
)

// hint adds what is probably wrong with the URL to the error of a server that could not
// be opened.
func (t *Target) hint(ctx context.Context, err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		if refused := t.refuses(); refused != nil {
			return fmt.Errorf("%w: %w", driver.ErrUnavailable, refused)
		}
	}
	var record tls.RecordHeaderError
	cut := errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
	switch {
	case t.Kind == "sentinel" && strings.Contains(err.Error(), "redis: nil"):
		return fmt.Errorf("%w: %s", driver.ErrUnavailable, t.masters(ctx))
	case rediscmd.NoConnection(err):
		return err
	case t.TLS == nil && cut:
		return fmt.Errorf("%w: the server closed the connection; if it uses TLS, write %ss:// instead of %[2]s://: %[3]w", driver.ErrUnavailable, t.Scheme, unsent(err))
	case t.TLS != nil && (cut || errors.As(err, &record) || errors.Is(err, context.DeadlineExceeded)):
		return fmt.Errorf("%w: no answer over TLS; if the server does not use TLS, write %s:// instead of %[2]ss://: %[3]w", driver.ErrUnavailable, t.Scheme, unsent(err))
	case t.Kind == "cluster" && strings.Contains(err.Error(), "cluster support disabled"):
		return fmt.Errorf("%w; the server is not part of a cluster: write %s://", err, t.Scheme)
	case errors.Is(err, driver.ErrUnknown):
		return fmt.Errorf("%w: %w", driver.ErrUnavailable, unsent(err))
	}
	return err
}

// unsent returns the cause of an error of unknown outcome: nothing was done before the store
// is open.
func unsent(err error) error {
	for _, cause := range []error{io.EOF, syscall.ECONNRESET, context.DeadlineExceeded, context.Canceled} {
		if errors.Is(err, cause) {
			return cause
		}
	}
	return err
}

// refuses returns the error of a port at which no server listens. The client goes on
// dialing such a port until the time is over, and then reports only that.
func (t *Target) refuses() error {
	conn, err := net.DialTimeout("tcp", t.Hosts[0], 100*time.Millisecond)
	if err == nil {
		_ = conn.Close()
		return nil
	}
	if len(t.Hosts) > 1 || !errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	return err
}

// masters returns the message that no sentinel knows the master, and which masters they know.
func (t *Target) masters(ctx context.Context) string {
	text := fmt.Sprintf("the sentinels know no master %q", t.Master)
	var names []string
	for _, addr := range t.Hosts {
		found, err := rediscmd.Within(ctx, func() ([]any, error) {
			c := redis.NewSentinelClient(&redis.Options{Addr: addr, Username: t.Sentinel.User, Password: t.Sentinel.Pass,
				TLSConfig: t.TLS, DialTimeout: t.Dial, ReadTimeout: t.Read, ContextTimeoutEnabled: true})
			defer c.Close()
			return c.Masters(ctx).Result()
		})
		if err != nil {
			continue
		}
		for _, m := range found {
			if fields, ok := m.(map[any]any); ok {
				names = append(names, fmt.Sprint(fields["name"]))
			} else if pairs, ok := m.([]any); ok && len(pairs) > 1 && pairs[0] == "name" {
				names = append(names, fmt.Sprint(pairs[1]))
			}
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) > 0 {
		text += "; they know " + strings.Join(names, ", ")
	}
	return text
}
