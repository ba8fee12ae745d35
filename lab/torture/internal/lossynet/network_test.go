// SPDX-License-Identifier: Apache-2.0

package lossynet

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/internal/servers"
)

// echo listens for a client and sends every line back.
func echo(t *testing.T, l net.Listener) {
	t.Helper()
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(c, c); _ = c.Close() }()
		}
	}()
}

func newNetwork(t *testing.T) *Network {
	t.Helper()
	w, err := New(1)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(w.Close)
	return w
}

// dialed connects from the side of the clients.
func dialed(t *testing.T, w *Network, addr net.Addr) net.Conn {
	t.Helper()
	var c net.Conn
	err := w.near.in(func() (err error) { c, err = net.Dial("tcp", addr.String()); return err })
	must.OK(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// lines sends lines and reads them back.
func lines(t *testing.T, c net.Conn, n int) {
	t.Helper()
	r := bufio.NewReader(c)
	for i := range n {
		want := fmt.Sprintf("line %d\n", i)
		if _, err := io.WriteString(c, want); err != nil {
			t.Fatal(err)
		}
		if got, err := r.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v, want %q", got, err, want)
		}
	}
}

// TestTCPSurvivesEveryState: the bytes of a connection arrive, in order and unchanged,
// whatever happens to its packets.
func TestTCPSurvivesEveryState(t *testing.T) {
	for name, s := range map[string]State{
		"good": {}, "lose": {Lose: 10}, "corrupt": {Corrupt: 10}, "twice": {Twice: 50, By: time.Millisecond},
		"late": {Late: 30, By: 3 * time.Millisecond}, "slow": {Slow: true, By: time.Millisecond}, "flap": {Flap: true, By: 30 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			w := newNetwork(t)
			l, err := w.Listen(2)
			must.OK(t, err)
			echo(t, l)
			c := dialed(t, w, l.Addr())
			w.Set(2, s)
			lines(t, c, 40)
			if touched := w.Set(2, State{}); (touched > 0) != (name != "good") {
				t.Errorf("%d packets were touched", touched)
			}
		})
	}
}

// TestOneDirection: a cut of one direction, and of one client, leaves the others alone.
func TestOneDirection(t *testing.T) {
	w := newNetwork(t)
	var conns []net.Conn
	for client := range 2 {
		l, err := w.Listen(client)
		must.OK(t, err)
		echo(t, l)
		c := dialed(t, w, l.Addr())
		lines(t, c, 1)
		conns = append(conns, c)
	}
	r, err := w.ListenResource()
	must.OK(t, err)
	echo(t, r)
	w.Set(0, State{NoReplies: true})
	resource := dialed(t, w, r.Addr())
	if _, err := io.WriteString(conns[0], "lost\n"); err != nil {
		t.Fatal(err)
	}
	lines(t, conns[1], 3)
	lines(t, resource, 3)
	_ = conns[0].SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := conns[0].Read(make([]byte, 8)); err == nil {
		t.Errorf("%d bytes came through a cut", n)
	}
	if touched := w.Set(0, State{}); touched == 0 {
		t.Error("no packet was dropped")
	}
}

// TestStart: a command of a client is on the wire and not on the machine's network.
func TestStart(t *testing.T) {
	w := newNetwork(t)
	var out bytes.Buffer
	cmd := exec.Command("ip", "-o", "-4", "addr")
	cmd.Stdout = &out
	must.OK(t, w.Start(cmd))
	if err := cmd.Wait(); err != nil || !bytes.Contains(out.Bytes(), []byte("10.99.0.1/24")) || bytes.Count(out.Bytes(), []byte("\n")) != 2 {
		t.Errorf("got %s, %v; want the wire and the loopback", out.String(), err)
	}
}

// init keeps TestMain on the main thread, for TestNamespaceLeavesTheMainThread.
func init() { runtime.LockOSThread() }

// mainThread is the network of the main thread before and after a namespace was made there.
var mainThread struct {
	before, after string
	err           error
}

// makeHere makes a namespace as if its goroutine had been started on this thread.
func makeHere() {
	network := func() string { link, _ := os.Readlink("/proc/self/ns/net"); return link }
	ns, made := &namespace{do: make(chan func())}, make(chan error, 1)
	mainThread.before = network()
	close(ns.do) // it ends as soon as it is made
	ns.serve(made)
	mainThread.after, mainThread.err = network(), <-made
}

// TestNamespaceLeavesTheMainThread: a namespace on the main thread would stay after the wire
// is closed, and /proc/net, where servers.Peers finds connections, would be of that namespace.
func TestNamespaceLeavesTheMainThread(t *testing.T) {
	if mainThread.err != nil {
		t.Skip(mainThread.err)
	}
	if mainThread.after != mainThread.before {
		t.Errorf("the main thread is in %s, and was in %s", mainThread.after, mainThread.before)
	}
}

// TestMain is also the process of TestWireEndsWithItsProcess.
func TestMain(m *testing.M) {
	if os.Getenv(helper) == "" {
		makeHere()
		os.Exit(m.Run())
	}
	w, err := New(1)
	if err != nil {
		log.Fatal(err)
	}
	cmd := exec.Command("sleep", "1000")
	if err := w.Start(cmd); err != nil {
		log.Fatal(err)
	}
	fmt.Println(cmd.Process.Pid)
	select {}
}

const helper = "WIRE_HELPER"

// TestWireEndsWithItsProcess: after kill -9 no client keeps the namespace, which has no name
// under which it could stay.
func TestWireEndsWithItsProcess(t *testing.T) {
	newNetwork(t) // or there is no right to make one
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helper+"=1")
	out, err := cmd.StdoutPipe()
	must.OK(t, err)
	must.OK(t, cmd.Start())
	var pid int
	if _, err := fmt.Fscan(out, &pid); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, 0); err != nil {
		t.Fatalf("the client does not run: %v", err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if err := servers.Await("the client ends", func() bool { return ended(pid) }); err != nil {
		t.Error(err)
	}
}

// ended reports whether a process has ended, though its parent may not have asked for it.
func ended(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || bytes.Contains(stat, []byte(") Z "))
}

// TestChanceIsSeeded: the same packets under the same seed have the same fate.
func TestChanceIsSeeded(t *testing.T) {
	s := State{Lose: 20, Corrupt: 10, Twice: 10, Late: 30, By: time.Millisecond}
	fates := func(seed uint64) (all []fate) {
		chance := rand.New(rand.NewPCG(seed, 4))
		for range 200 {
			all = append(all, s.decide(request, 100, 0, 0, chance))
		}
		return all
	}
	if a, b := fmt.Sprint(fates(7)), fmt.Sprint(fates(7)); a != b {
		t.Error("the same seed gave other fates")
	}
	if a, b := fmt.Sprint(fates(7)), fmt.Sprint(fates(8)); a == b {
		t.Error("another seed gave the same fates")
	}
}

// TestDecide: each state does what it says, and only that.
func TestDecide(t *testing.T) {
	const ms = time.Millisecond
	for name, tt := range map[string]struct {
		s           State
		d           direction
		age, queued time.Duration
		want        fate
	}{
		"good":                 {},
		"no requests":          {s: State{NoRequests: true}, want: fate{drop: true}},
		"no requests, a reply": {s: State{NoRequests: true}, d: reply},
		"no replies":           {s: State{NoReplies: true}, d: reply, want: fate{drop: true}},
		"flap, down":           {s: State{Flap: true, By: 10 * ms}, age: 25 * ms, want: fate{drop: true}},
		"flap, up":             {s: State{Flap: true, By: 10 * ms}, age: 15 * ms},
		"lose all":             {s: State{Lose: 100}, want: fate{drop: true}},
		"corrupt all":          {s: State{Corrupt: 100}, want: fate{corrupt: true}},
		"all twice":            {s: State{Twice: 100, By: ms}, want: fate{again: true}},
		"all late":             {s: State{Late: 100, By: ms}, want: fate{after: ms}},
		"slow":                 {s: State{Slow: true, By: ms}, queued: 5 * ms, want: fate{after: 6*ms + 1024*time.Second/Rate}},
		"slow, full":           {s: State{Slow: true}, queued: time.Second, want: fate{drop: true}},
	} {
		if got := tt.s.decide(tt.d, 1024, tt.age, tt.queued, rand.New(rand.NewPCG(1, 1))); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
}
