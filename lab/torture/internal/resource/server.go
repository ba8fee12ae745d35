// SPDX-License-Identifier: Apache-2.0

// Package resource is what the lock protects: for each lock two registers that
// hold a list, in a separate process that no fault touches. A client reads
// a list, works, and writes it back with its own value at the end, as most
// programs do. If two do so at once, a value is lost.
//
//	GET /fenced?lock=l0     Fencing-Token: l0;512   raise the fence, then read
//	PUT /fenced?lock=l0     Fencing-Token: l0;512   check the fence and write, one step
//	GET, PUT /unfenced?lock=l0                      no questions asked
//
// The guard is the rule of package fence. What is lost in the unfenced register
// measures how often exclusion in time was not enough; the fenced one must never
// lose anything.
package resource

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"sync"

	"github.com/fencelock/fencelock/fence"
	"github.com/fencelock/fencelock/fence/httpfence"
	"github.com/fencelock/fencelock/lab/torture/internal/history"
)

// Guard is how the fenced register checks. All but Sound are wrong on purpose,
// for the brokenlock.
type Guard string

// The guards.
const (
	// Sound is the rule of package fence.
	Sound Guard = "sound"
	// Open lets every client in.
	Open Guard = "open"
	// Above refuses the token it has seen, so a holder gets in once only.
	Above Guard = "above"
	// OnlyWrites does not raise the fence when a holder reads.
	OnlyWrites Guard = "only-writes"
)

// Write is the body of a PUT.
type Write struct {
	Who   string   `json:"who"`
	Value string   `json:"value"`
	List  []string `json:"list"`
}

type register struct {
	mark fence.Mark
	list []string
}

type server struct {
	guard Guard
	rec   *history.Recorder

	mu        sync.Mutex
	registers map[string]*register // by kind and lock
}

// Serve serves on a listener until it is closed, and records what was let in.
func Serve(l net.Listener, guard Guard, rec *history.Recorder) error {
	s := &server{guard: guard, rec: rec, registers: map[string]*register{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/fenced", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, history.Fenced) })
	mux.HandleFunc("/unfenced", func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, history.Unfenced) })
	mux.HandleFunc("/final", func(http.ResponseWriter, *http.Request) { s.final() })
	err := http.Serve(l, mux)
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (s *server) serve(w http.ResponseWriter, r *http.Request, kind string) {
	lock := r.URL.Query().Get("lock")
	var in Write
	if r.Method == http.MethodPut {
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	reg := s.registers[kind+" "+lock]
	if reg == nil {
		reg = &register{}
	}
	var mark fence.Mark
	if kind == history.Fenced {
		var err error
		mark, err = httpfence.Parse(r.Header.Get(httpfence.Header))
		if err == nil {
			err = s.admit(reg, mark, r.Method == http.MethodPut)
		}
		if httpfence.Refuse(w, err) {
			return
		}
	}
	s.registers[kind+" "+lock] = reg // a list that no client was let in to has no last state
	e := history.Event{Kind: history.Enter, Who: r.URL.Query().Get("who"), Lock: lock, Register: kind, Token: int64(mark.Token)}
	if r.Method == http.MethodPut {
		reg.list = in.List
		e.Kind, e.Value, e.List = history.Admit, in.Value, in.List
	}
	s.rec.Add(e)
	_ = json.NewEncoder(w).Encode(reg.list)
}

// admit is the guard; the caller has the mutex, so it and the write are one step.
func (s *server) admit(reg *register, given fence.Mark, write bool) error {
	if s.guard == Open {
		return nil
	}
	if err := fence.Check(reg.mark, given); err != nil {
		return err
	}
	if s.guard == Above && given.Token == reg.mark.Token {
		return &fence.StaleError{Given: given, Newer: reg.mark}
	}
	if write || s.guard != OnlyWrites {
		reg.mark = given
	}
	return nil
}

// final records the lists.
func (s *server) final() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range []string{history.Fenced, history.Unfenced} {
		for key, reg := range s.registers {
			if len(key) > len(kind) && key[:len(kind)+1] == kind+" " {
				s.rec.Add(history.Event{Kind: history.Final, Lock: key[len(kind)+1:], Register: kind, List: reg.list})
			}
		}
	}
}
