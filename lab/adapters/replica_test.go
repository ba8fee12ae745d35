// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/internal/figure"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/redisstore"
	"github.com/redis/go-redis/v9"
)

// What a replica reads from its environment.
const (
	roleVariable   = "FENCELOCK_TEST_ROLE"
	urlVariable    = "FENCELOCK_TEST_URL"
	notesVariable  = "FENCELOCK_TEST_NOTES"
	offsetVariable = "FENCELOCK_TEST_OFFSET"
	extraVariable  = "FENCELOCK_TEST_EXTRA"
)

// roles are what a replica can be: it works until its context ends, which SIGTERM does.
var roles = map[string]func(ctx context.Context, r *replica) error{}

// replica is this process in a role.
type replica struct {
	client *fencelock.Client
	redis  *redis.Client
	extra  string
}

// note writes down what the replica did.
func (r *replica) note(format string, args ...any) {
	line := fmt.Sprintf("%d ", os.Getpid()) + fmt.Sprintf(format, args...)
	if err := r.redis.RPush(context.Background(), "runs", line).Err(); err != nil {
		fmt.Fprintln(os.Stderr, "note:", err)
	}
}

var figures = flag.Bool("adapters.figures", false, "print what was counted as figures")

// counted is what the tests of this run counted.
var counted = counts{modules: math.NaN()}

type counts struct {
	sync.Mutex
	proved                map[string]bool
	duplicates, ofTheHost int
	twoLeaders            int
	modules               float64
}

// proved notes that an adapter passed with its host, and how often something ran twice.
func proved(t *testing.T, adapter string, duplicates int) {
	counted.Lock()
	defer counted.Unlock()
	counted.duplicates += duplicates
	if t.Failed() {
		delete(counted.proved, adapter)
		return
	}
	if counted.proved == nil {
		counted.proved = map[string]bool{}
	}
	counted.proved[adapter] = true
}

// withoutAdapter notes how often something ran twice with what the host has.
func withoutAdapter(duplicates int) {
	counted.Lock()
	defer counted.Unlock()
	counted.ofTheHost += duplicates
}

func TestMain(m *testing.M) {
	if role := os.Getenv(roleVariable); role != "" {
		if err := play(role); err != nil {
			fmt.Fprintln(os.Stderr, role+":", err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	code := m.Run()
	if *figures {
		for _, f := range []figure.Figure{
			{Name: "adapters-proved", Value: float64(len(counted.proved)), Goal: figure.AtLeast(7)},
			{Name: "adapters-duplicate-runs", Value: float64(counted.duplicates), Goal: figure.AtMost(0)},
			{Name: "adapters-host-lock-duplicate-runs", Value: float64(counted.ofTheHost)},
			{Name: "adapters-modules-added-to-user", Value: counted.modules, Goal: figure.AtMost(0)},
			{Name: "adapters-two-leaders", Value: float64(counted.twoLeaders), Goal: figure.AtMost(0)},
		} {
			fmt.Println(f)
		}
	}
	os.Exit(code)
}

// play is the main function of a replica.
func play(role string) error {
	offset, err := time.ParseDuration(os.Getenv(offsetVariable))
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	time.Sleep(offset)
	opts, err := redis.ParseURL(os.Getenv(notesVariable))
	if err != nil {
		return err
	}
	store, err := redisstore.Open(ctx, os.Getenv(urlVariable), nil)
	if err != nil {
		return err
	}
	// The margin is long, because a busy machine must not make a holder late.
	client, err := fencelock.New(store, &fencelock.Options{TTL: 3 * time.Second, Margin: time.Second})
	if err != nil {
		return err
	}
	defer client.Close(context.Background())
	return roles[role](ctx, &replica{client, redis.NewClient(opts), os.Getenv(extraVariable)})
}

// site is a Redis server and the replicas on it.
type site struct {
	t      *testing.T
	redis  *servers.RedisServer
	client *redis.Client
}

func newSite(t *testing.T) *site {
	s := &site{t: t, redis: servers.Test(t, func() (*servers.RedisServer, error) { return servers.Redis.Start() })}
	s.client = redis.NewClient(&redis.Options{Addr: s.redis.Addr})
	t.Cleanup(func() { s.client.Close() })
	return s
}

// start starts a replica, which ends with the test at the latest.
func (s *site) start(role string, offset time.Duration, extra string) *exec.Cmd {
	s.t.Helper()
	return s.startAt(s.redis.Addr, role, offset, extra)
}

// startAt starts a replica whose locks are at an address, such as that of a proxy. What it
// does it writes to the server itself.
func (s *site) startAt(addr, role string, offset time.Duration, extra string) *exec.Cmd {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, urlVariable+"=redis://"+addr, notesVariable+"=redis://"+s.redis.Addr,
		offsetVariable+"="+offset.String(), extraVariable+"="+extra)
	cmd.Stderr = os.Stderr
	if err := servers.Start(cmd); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { s.end(cmd, syscall.SIGKILL) })
	return cmd
}

// end ends a replica and waits for it.
func (s *site) end(cmd *exec.Cmd, sig os.Signal) error {
	if cmd.ProcessState != nil {
		return nil
	}
	_ = cmd.Process.Signal(sig)
	return s.wait(cmd)
}

// wait waits for a replica that is about to end. One that does not end shows its goroutines.
func (s *site) wait(cmd *exec.Cmd) error {
	s.t.Helper()
	late := time.AfterFunc(time.Minute, func() {
		s.t.Errorf("replica %d has not ended within a minute", cmd.Process.Pid)
		_ = cmd.Process.Signal(syscall.SIGQUIT)
	})
	defer late.Stop()
	return cmd.Wait()
}

// atOnce runs two replicas at once until they end by themselves, and returns what they wrote:
// a line each.
func (s *site) atOnce(role, extra string) []ran {
	s.t.Helper()
	var all []*exec.Cmd
	for range 2 {
		all = append(all, s.start(role, 0, extra))
	}
	for _, cmd := range all {
		if err := s.wait(cmd); err != nil {
			s.t.Errorf("%s: %v", role, err)
		}
	}
	return s.await(2)
}

// ran is one line that a replica wrote.
type ran struct {
	pid  int
	what string
}

// runs returns what the replicas wrote, in order.
func (s *site) runs() (all []ran) {
	s.t.Helper()
	lines, err := s.client.LRange(s.t.Context(), "runs", 0, -1).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for _, line := range lines {
		pid, what, _ := strings.Cut(line, " ")
		n, err := strconv.Atoi(pid)
		if err != nil {
			s.t.Fatalf("line %q", line)
		}
		all = append(all, ran{n, what})
	}
	return all
}

// clear drops what was written.
func (s *site) clear() {
	if err := s.client.Del(s.t.Context(), "runs").Err(); err != nil {
		s.t.Fatal(err)
	}
}

// await waits until so many lines are there, and returns them.
func (s *site) await(n int) []ran {
	s.t.Helper()
	var all []ran
	if err := servers.Await(fmt.Sprintf("%d runs", n), func() bool { all = s.runs(); return len(all) >= n }); err != nil {
		s.t.Fatalf("%v; there are %v", err, all)
	}
	return all
}
