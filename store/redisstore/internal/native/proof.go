// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// runProof proves that a server has the run id under which a session was opened. Every
// grant needs the proof: a server that restarted, or a replica that took over, may have
// lost the last tickets. Reading the run id with INFO costs three times as much as
// the rest of a grant.
//
// A server keeps scripts in the memory of its process alone: they are neither saved
// nor replicated (Redis 7.0 and later, Valkey; rediscmd.SameRun rejects others). So the scripts
// for a run carry its run id in their text, and are loaded over a connection on which
// INFO just returned that run id. A connection ends with the process of its server, so
// no other run has such a text. That it can be called by its SHA is the proof, and costs
// nothing; a transaction of plain commands asks whether it is there:
//
//	INFO ──▶ run id R ──SCRIPT LOAD "RUN_ID = R …"──▶ in the server until it ends
//	EVALSHA sha("RUN_ID = R …") ──▶ runs: this is R │ NOSCRIPT: read INFO, load again
//	SCRIPT EXISTS sha("RUN_ID = R …") ──▶ 1: this is R │ 0: a script decides
//
// The text must never be sent by EVAL: that would load it into any server it reaches.
// The rejected way was a channel named after the run id, with PUBSUB NUMSUB in the
// script: 3 µs a call, a connection for each process, and no way to be sure of a client
// library that subscribes again by itself.
//
// The run id does not change when a server becomes a replica and is promoted again, without a
// restart and with its old data. The replication id in the marker shows that, and checked in decide.lua, how
// scripts that do not read INFO know it.
type runProof struct {
	s     *session
	runID string
	*run

	state atomic.Int32 // proofState
}

// proofState is what a session knows about the scripts for its run. The zero value is unproven.
type proofState int32

const (
	// unproven: the scripts may be in the server. The next call finds out.
	unproven proofState = iota
	// proven: they were called, or loaded.
	proven
	// lost: they are not in the server; they are being loaded.
	lost
	// impossible: the server has no run id that can be part of a script.
	impossible
)

// hasRunID keeps anything else than a run id out of a script's text.
var hasRunID = regexp.MustCompile(`^[0-9a-zA-Z]+$`)

// frequent are the scripts worth a text for each run.
var frequent = []*rediscmd.Script{attemptScript, withdrawScript, batchScript, wakeScript, keepAliveScript, touchScript}

func (l *runProof) init(s *session, runID string) {
	l.s, l.runID = s, runID
	if !hasRunID.MatchString(runID) {
		l.run = &run{}
		l.state.Store(int32(impossible))
		return
	}
	l.run = s.store.runs.of(runID)
}

// run is the scripts for one run id. Sessions share them, and the proof: after a failover all
// sessions of a process find at once that the new server does not have the scripts.
type run struct {
	scripts map[*rediscmd.Script]*rediscmd.Script // without text

	loading sync.Mutex
	loads   atomic.Int64 // how often they were loaded
}

// load loads the scripts by prove, unless another session has loaded them since there were so
// many loads. It reports whether they are loaded.
func (r *run) load(loads int64, prove func() error) bool {
	r.loading.Lock()
	defer r.loading.Unlock()
	if r.loads.Load() != loads {
		return true
	}
	if prove() != nil {
		return false
	}
	r.loads.Add(1)
	return true
}

// textsOf returns the scripts for a run id, with their texts. They are a quarter of a megabyte, and needed
// rarely, so they are made for each load: a process that kept them would grow with every restart of a server.
func textsOf(runID string) (texts []*rediscmd.Script) {
	for _, generic := range frequent {
		texts = append(texts, generic.In(runID))
	}
	return texts
}

// runs are the scripts that sessions use: to make them takes longer than to open a session. They are kept as long as a session
// uses them. A list with a limit would grow with every restart of a server, or be too short for a large cluster.
type runs struct {
	mu   sync.Mutex
	byID map[string]weak.Pointer[run]
}

func (r *runs) of(runID string) *run {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.byID[runID].Value(); found != nil {
		return found
	}
	made := &run{scripts: map[*rediscmd.Script]*rediscmd.Script{}}
	for i, own := range textsOf(runID) {
		made.scripts[frequent[i]] = &rediscmd.Script{Name: own.Name, SHA: own.SHA}
	}
	if r.byID == nil {
		r.byID = map[string]weak.Pointer[run]{}
	}
	maps.DeleteFunc(r.byID, func(_ string, p weak.Pointer[run]) bool { return p.Value() == nil })
	r.byID[runID] = weak.Make(made)
	return made
}

// script returns what the server knows under its run id only, nil if that is not known to be loaded.
func (l *runProof) script(generic *rediscmd.Script) *rediscmd.Script {
	if l.state.Load() > int32(proven) {
		return nil
	}
	return l.scripts[generic]
}

// proven reports whether the scripts were called, or loaded.
func (l *runProof) proven() bool { return l.state.Load() == int32(proven) }

// call runs the script for this run if it is loaded. Otherwise it runs the generic one,
// which reads INFO, and loads the other in the background.
func (l *runProof) call(ctx context.Context, generic *rediscmd.Script, names, args []string) ([]any, error) {
	keys := keys(l.s.base, names)
	if own := l.script(generic); own != nil {
		reply, err := l.s.store.client.Eval(ctx, own, keys, args)
		if !errors.Is(err, rediscmd.ErrNoScript) {
			l.called(err)
			return reply, l.s.store.explain(err)
		}
		l.lost()
	}
	reply, err := l.s.store.client.Eval(ctx, generic, keys, args)
	return reply, l.s.store.explain(err)
}

// called notes that a script was called. Another call may have found since that it is lost.
func (l *runProof) called(err error) {
	if err == nil {
		l.state.CompareAndSwap(int32(unproven), int32(proven))
	} else {
		l.state.CompareAndSwap(int32(proven), int32(unproven))
	}
}

// now loads the scripts and waits for it.
func (l *runProof) now(ctx context.Context) {
	if len(l.scripts) > 0 && l.request(ctx) == nil {
		l.state.Store(int32(proven))
	}
}

// request has the client load the scripts.
func (l *runProof) request(ctx context.Context) error {
	return l.s.store.client.Prove(ctx, l.s.base, l.runID, textsOf(l.runID))
}

// proveAgain is how long after a failure the next proof is tried: the user may lack a
// permission, or a proxy stand between. Until then it is slower, and as safe.
const proveAgain = 30 * time.Second

// lost notes that the server does not know the scripts, and loads them in the background.
func (l *runProof) lost() {
	if len(l.scripts) == 0 || l.state.Swap(int32(lost)) == int32(lost) {
		return // it is under way
	}
	loads := l.loads.Load()
	go func() {
		ctx, cancel := context.WithTimeout(l.s.ctx, proveAgain)
		defer cancel()
		if l.load(loads, func() error { return l.request(ctx) }) {
			l.state.Store(int32(proven))
			return
		}
		<-ctx.Done()
		l.state.Store(int32(unproven)) // the next call finds out
	}()
}
