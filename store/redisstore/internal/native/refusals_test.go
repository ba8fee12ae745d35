// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
)

// refusals are answers of real servers, how to get them, and what they mean.
var refusals = []struct {
	code  string
	means error
	start func(t *testing.T, flavor redistest.Flavor) *redistest.Server
}{
	{"OOM", driver.ErrUnavailable, configured("maxmemory", "1")},
	{"NOREPLICAS", driver.ErrUnavailable, configured("min-replicas-to-write", "1")},
	{"MISCONF", driver.ErrUnavailable, func(t *testing.T, flavor redistest.Flavor) *redistest.Server {
		server := configured("save", "1000000 1")(t, flavor)
		dir := server.Do("CONFIG", "GET", "dir")
		if dir.Err() != nil {
			t.Fatal(dir.Err())
		}
		// What should become the file is a directory.
		must.OK(t, os.Mkdir(filepath.Join(dir.Pairs()["dir"], "dump.rdb"), 0o700))
		server.Do("BGSAVE")
		redistest.WaitFor(t, "it cannot save", func() bool { return server.Info("persistence", "rdb_last_bgsave_status") == "err" })
		return server
	}},
	{"READONLY", driver.ErrUnavailable, func(t *testing.T, flavor redistest.Flavor) *redistest.Server {
		return flavor.Start(t, "--replicaof", "127.0.0.1", strconv.Itoa(flavor.Start(t).Port))
	}},
	{"MASTERDOWN", driver.ErrUnavailable, func(t *testing.T, flavor redistest.Flavor) *redistest.Server {
		return flavor.Start(t, "--replicaof", "127.0.0.1", "1", "--replica-serve-stale-data", "no")
	}},
	{"CLUSTERDOWN", driver.ErrUnavailable, func(t *testing.T, flavor redistest.Flavor) *redistest.Server {
		return flavor.Start(t, redistest.ClusterNode(t)...)
	}},
	{"BUSY", driver.ErrUnavailable, func(t *testing.T, flavor redistest.Flavor) *redistest.Server {
		server := configured("busy-reply-threshold", "1")(t, flavor)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			server.Do("EVAL", "while true do end", "0")
		}()
		t.Cleanup(func() {
			server.Do("SCRIPT", "KILL")
			<-ended
		})
		redistest.WaitFor(t, "it is busy", func() bool {
			err := server.Do("PING").Err()
			return err != nil && strings.HasPrefix(err.Error(), "BUSY")
		})
		return server
	}},
	// Another program wrote the key: the script fails in the middle.
	{"WRONGTYPE", driver.ErrUnknown, func(t *testing.T, flavor redistest.Flavor) *redistest.Server {
		server := flavor.Start(t)
		must.OK(t, server.Do("SET", "fencelock:{fencelock:0}", "x").Err())
		return server
	}},
}

// configured starts a server and sets it up when it runs.
func configured(name, value string) func(*testing.T, redistest.Flavor) *redistest.Server {
	return func(t *testing.T, flavor redistest.Flavor) *redistest.Server {
		server := flavor.Start(t)
		must.OK(t, server.Do("CONFIG", "SET", name, value).Err())
		return server
	}
}

// TestRefusals: what a server answers that does not do what it was asked, and what
// the store makes of it.
func TestRefusals(t *testing.T) {
	everywhere(t, func(t *testing.T, flavor redistest.Flavor, lib library) {
		for _, tt := range refusals {
			t.Run(tt.code, func(t *testing.T) {
				c := lib.open(t, login{Addr: tt.start(t, flavor).Addr}, nil)
				err := c.SetLimit(t.Context(), "x", 0)
				if err == nil || !strings.Contains(err.Error(), tt.code) {
					t.Fatalf("got %v, want %s", err, tt.code)
				}
				for _, meaning := range meanings {
					if errors.Is(err, meaning) != (meaning == tt.means) {
						t.Errorf("got %v, want it to mean: %v", err, tt.means)
					}
				}
			})
		}
	})
}

// TestNoPassword: a server that wants a password says so in a way that few would
// understand, because the call is longer than it allows strangers to send. rueidis
// asks when it connects.
func TestNoPassword(t *testing.T) {
	t.Parallel()
	server := configured("requirepass", secret)(t, redistest.Redis)
	_, err := libraries[0].open(t, login{Addr: server.Addr}, nil).Inspect(t.Context(), "x")
	if err == nil || !strings.Contains(err.Error(), "check the user and the password") {
		t.Errorf("got %v, want it to say what is missing", err)
	}
}
