// SPDX-License-Identifier: Apache-2.0

//go:build unix

package grace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/driver"
	_ "github.com/fencelock/fencelock/store/redisstore" // registers redis:// and redis-sentinel://
	_ "github.com/fencelock/fencelock/store/sqlstore"   // registers postgres://
)

// The environment of a member of the fleet.
const (
	envURL  = "FENCELOCK_TEST_MEMBER_URL"
	envName = "FENCELOCK_TEST_MEMBER_NAME"
	envTTL  = "FENCELOCK_TEST_MEMBER_TTL"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(envURL); url != "" {
		if err := member(url); err != nil {
			report("failed %v", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var reports sync.Mutex

// report writes a line for the test.
func report(format string, args ...any) {
	reports.Lock()
	defer reports.Unlock()
	fmt.Printf(format+"\n", args...)
}

// member is a process of the fleet: it keeps one lock for as long as it lives, and takes and releases shared names all the
// time. It ends with SIGTERM.
func member(url string) error {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	redis.SetLogger(silence{})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	store, err := fencelock.OpenStore(ctx, url)
	if err != nil {
		return err
	}
	defer store.Close()
	ttl, err := time.ParseDuration(os.Getenv(envTTL))
	if err != nil {
		return err
	}
	client, err := fencelock.New(store, &fencelock.Options{TTL: ttl})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	own, err := client.Mutex("own-" + os.Getenv(envName)).Lock(ctx)
	if err != nil {
		return complain(err)
	}
	report("ready")
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { work(ctx, client) })
	}
	select {
	case <-own.Context().Done():
		report("lost %v", context.Cause(own.Context()))
	case <-ctx.Done():
	}
	all.Wait()
	if err := own.Unlock(context.Background()); err != nil {
		report("lost %v", err)
	}
	return nil
}

// silence discards the log of go-redis, which reports every broken connection.
type silence struct{}

// Printf implements the logger of go-redis.
func (silence) Printf(context.Context, string, ...any) {}

// work takes names that all members want, until ctx ends.
func work(ctx context.Context, client *fencelock.Client) {
	for ctx.Err() == nil {
		name := fmt.Sprint("shared-", rand.IntN(names))
		bound, cancel := context.WithTimeout(ctx, time.Minute)
		lease, err := client.Mutex(name).Lock(bound)
		cancel()
		if err != nil {
			if ctx.Err() == nil {
				_ = complain(err)
				time.Sleep(10 * time.Millisecond)
			}
			continue
		}
		began := time.Now()
		select {
		case <-lease.Context().Done():
			report("lost %s %v", name, context.Cause(lease.Context()))
		case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
		}
		report("held %s %d %d", name, began.UnixNano(), time.Now().UnixNano())
		if err := lease.Unlock(context.WithoutCancel(ctx)); err != nil && !errors.Is(err, fencelock.ErrLost) {
			_ = complain(err)
		}
	}
}

// names is how many names all members want.
const names = 12

// complain reports an error; one about settings is a refusal.
func complain(err error) error {
	if errors.Is(err, driver.ErrRefused) {
		report("refused %v", err)
	} else {
		report("error %v", err)
	}
	return err
}
