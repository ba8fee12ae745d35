// SPDX-License-Identifier: Apache-2.0

//go:build unix

package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/audit"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/breaklock"
	"github.com/fencelock/fencelock/cmd/fencelock/internal/tfstate"
	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/servers"
	"github.com/fencelock/fencelock/store/memstore"
)

// TestTerraformIDIsNotThatOfAProgram: a user that knows the re-entry id of a program cannot join
// its lock, nor break it.
func TestTerraformIDIsNotThatOfAProgram(t *testing.T) {
	t.Parallel()
	onStores(t, func(t *testing.T, store driver.Store) {
		s := newStated(t, 0, store)
		w := s.servers[0]
		program, err := client(t, store, nil).Mutex("tf/prod", fencelock.ReentrantAs("a1")).Lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s.want(423, w, "ann", "LOCK", "tf/prod", "", info("a1"))
		s.want(200, w, "ann", "UNLOCK", "tf/prod", "", info("a1"))
		if h := s.holder(w, "tf/prod"); h == nil || h.Token != program.Token() {
			t.Errorf("got %+v", h)
		}
	})
}

// TestUnlockIsRepeatedAfterALostAnswer: an unlock that was done is done, even if another apply has
// locked since.
func TestUnlockIsRepeatedAfterALostAnswer(t *testing.T) {
	t.Parallel()
	s := newStated(t, 0, memstore.New(nil))
	w := s.servers[0]
	s.want(200, w, "ann", "LOCK", "tf/prod", "", info("a1"))
	s.want(200, w, "ann", "UNLOCK", "tf/prod", "", info("a1"))
	s.want(200, w, "bob", "LOCK", "tf/prod", "", info("b7"))
	s.want(200, w, "ann", "UNLOCK", "tf/prod", "", info("a1"))
	s.want(423, w, "ann", "UNLOCK", "tf/prod", "", info("a0"))
	s.want(423, w, "bob", "UNLOCK", "tf/prod", "", info("a1")) // not the one that unlocked
	s.want(200, w, "bob", "POST", "tf/prod", "b7", `{"serial":1}`)
}

// TestLateTerraformWriteOfTheSameLock: a write that was retried on another server and comes after
// the next one is refused.
func TestLateTerraformWriteOfTheSameLock(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	s := newStated(t, 0, store, store)
	one, two := s.servers[0], s.servers[1]
	state := func(serial string) string { return `{"version":4,"serial":` + serial + `,"lineage":"x"}` }
	s.want(200, one, "ann", "LOCK", "tf/prod", "", info("a1"))
	s.want(200, two, "ann", "POST", "tf/prod", "a1", state("5"))
	s.want(200, two, "ann", "POST", "tf/prod", "a1", state("6"))
	s.want(409, one, "ann", "POST", "tf/prod", "a1", state("5"))
	if got := s.want(200, one, "ann", "GET", "tf/prod", "", ""); got != state("6") {
		t.Errorf("the state is %s", got)
	}
}

// TestBreakOfAStateWhoseLockHasEnded: to break it unlocks the state, and the answer and the audit
// log report that.
func TestBreakOfAStateWhoseLockHasEnded(t *testing.T) {
	t.Parallel()
	redis := startRedis(t)
	proxy, err := servers.NewProxy(redis.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	s := newStated(t, time.Second, storeAt(t, proxy.Addr))
	s.want(200, s.servers[0], "ann", "LOCK", "tf/prod", "", info("a1"))
	direct := onRedis(t, redis)
	outside := client(t, direct, nil)
	token := s.holder(s.servers[0], "tf/prod").Token
	s.servers[0].stop()
	proxy.Close()
	s.servers[0].until("the lock of the store ends", func() bool {
		st, err := outside.Inspect(t.Context(), "tf/prod")
		return err == nil && len(st.Holders) == 0
	})
	// A program has it by now, so that the next server cannot take it again.
	program, err := outside.Mutex("tf/prod").Lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two := s.serve(direct, time.Second)
	o := operated{world: two, token: s.tokens["op"], log: s.log}
	var done breaklock.Done
	if status := o.breakIt("tf/prod", token, &done); status != 200 || done.Fence <= token || done.Fence >= program.Token() {
		t.Errorf("status %d, %+v", status, done)
	}
	if trail := o.trail(); trail[len(trail)-1].Kind != audit.Broken {
		t.Errorf("got %+v", trail[len(trail)-1])
	}
	s.want(409, two, "ann", "POST", "tf/prod", "a1", `{"serial":9}`)
	if status := o.breakIt("tf/prod", token, nil); status != 409 {
		t.Errorf("again: status %d", status)
	}
}

// TestDeleteOfAStateLeavesATrail: a removal is a thing of operators, like a force-unlock.
func TestDeleteOfAStateLeavesATrail(t *testing.T) {
	t.Parallel()
	s := newStated(t, 0, memstore.New(nil))
	w := s.servers[0]
	s.want(200, w, "ann", "LOCK", "tf/prod", "", info("a1"))
	s.want(200, w, "ann", "POST", "tf/prod", "a1", `{"serial":1}`)
	s.want(423, w, "op", "DELETE", "tf/prod", "", "")
	s.want(200, w, "ann", "UNLOCK", "tf/prod", "", info("a1"))
	s.want(200, w, "op", "DELETE", "tf/prod", "", "")
	var kinds []string
	for _, e := range (&operated{world: w, log: s.log}).trail() {
		kinds = append(kinds, fmt.Sprint(e.Kind, " ", e.Who, " ", e.Lock, " ", e.Status))
	}
	if got := strings.Join(kinds, ", "); got != "asked op tf/prod 0, failed op tf/prod 423, asked op tf/prod 0, broken op tf/prod 200" {
		t.Errorf("got %s", got)
	}
}

// TestPartOfAStateIsNotTakenForAllOfIt: a disk that fails while a state is sent ends the connection.
func TestPartOfAStateIsNotTakenForAllOfIt(t *testing.T) {
	t.Parallel()
	for what, state := range map[string]io.Reader{
		"an error":     io.MultiReader(strings.NewReader(`{"serial":1`), readerFunc(func([]byte) (int, error) { return 0, errors.New("the disk is gone") })),
		"an early end": strings.NewReader(`{"serial":1`),
	} {
		web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { sendState(w, state, 12) }))
		defer web.Close()
		resp, err := web.Client().Get(web.URL)
		if err != nil {
			continue // before the header was sent
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err == nil {
			t.Errorf("%s: got %q", what, text)
		}
	}
}

// TestLockWithATokenOfAnotherStore: Terraform shows nothing of an answer but the ID of the holder,
// so that the reason is there.
func TestLockWithATokenOfAnotherStore(t *testing.T) {
	t.Parallel()
	s := newStated(t, 0, memstore.New(nil))
	w := s.servers[0]
	_, err := w.server.cfg.States.Change(t.Context(), "tf/prod", func(r *tfstate.Record) error {
		return errors.Join(r.Take(tfstate.Lock{ID: "a1", User: "ann", Token: 1 << 62, Info: []byte(info("a1"))}), r.Give("a1", "ann"))
	})
	if err != nil {
		t.Fatal(err)
	}
	var got lockInfo
	if err := json.Unmarshal([]byte(s.want(423, w, "ann", "LOCK", "tf/prod", "", info("a2"))), &got); err != nil || !strings.Contains(got.ID, "another store") {
		t.Errorf("got %+v, %v", got, err)
	}
	if h := s.holder(w, "tf/prod"); h != nil {
		t.Errorf("left in the store: %+v", h)
	}
}
