// SPDX-License-Identifier: Apache-2.0

package luastore

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock/store/redisstore/internal/wire"
)

// runProof proves that a server has the run id under which a session was opened. Every
// grant needs the proof: a server that restarted, or a replica that took over, may have
// lost the counter of tokens. Reading the run id with INFO costs three times as much as
// the rest of a grant.
//
// A server keeps scripts in the memory of its process alone: they are neither saved
// nor replicated (Redis 7.0 and later, Valkey; wire.SameRun rejects others). So the scripts
// for a run carry its run id in their text, and are loaded over a connection on which
// INFO just returned that run id. A connection ends with the process of its server, so
// no other run has such a text. That it can be called by its SHA is the proof, and costs
// nothing:
//
//	INFO ──▶ run id R ──SCRIPT LOAD "RUN_ID = R …"──▶ in the server until it ends
//	EVALSHA sha("RUN_ID = R …") ──▶ runs: this is R │ NOSCRIPT: read INFO, load again
//
// The text must never be sent by EVAL: that would load it into any server it reaches.
// The rejected way was a channel named after the run id, with PUBSUB NUMSUB in the
// script: 3 µs a call, a connection for each process, and no way to be sure of a client
// library that subscribes again by itself.
//
// Not proved: that a server which was made a replica and promoted again without a
// restart still has its data. The marker shows it if a session was opened in between.
type runProof struct {
	s       *session
	runID   string
	scripts map[*wire.Script]*wire.Script // as they are for this run, without text
	full    []*wire.Script                // the same with their texts, to be loaded

	missing atomic.Bool // not in the server, as far as we know
	mu      sync.Mutex
	proving bool
}

// hasRunID keeps anything else than a run id out of a script's text.
var hasRunID = regexp.MustCompile(`^[0-9a-zA-Z]+$`)

// frequent are the scripts worth a text for each run.
var frequent = []*wire.Script{batchScript, attemptScript, withdrawScript}

func (l *runProof) init(s *session, runID string) {
	l.s, l.runID = s, runID
	if !hasRunID.MatchString(runID) {
		l.missing.Store(true)
		return
	}
	l.scripts = map[*wire.Script]*wire.Script{}
	for _, generic := range frequent {
		full := generic.In(runID)
		l.full = append(l.full, full)
		short := *full
		short.Text = ""
		l.scripts[generic] = &short
	}
}

// call runs the script for this run if it is loaded. Otherwise it runs the generic one,
// which reads INFO, and loads the other in the background.
func (l *runProof) call(ctx context.Context, conn wire.Conn, generic *wire.Script, args []string) ([]any, error) {
	keys := []string{l.s.store.bucket(l.s.shard)}
	if own := l.scripts[generic]; own != nil && !l.missing.Load() {
		reply, err := conn.Eval(ctx, own, keys, args)
		if !errors.Is(err, wire.ErrNoScript) {
			return reply, l.s.store.explain(err)
		}
		l.missing.Store(true)
		l.prove()
	}
	reply, err := conn.Eval(ctx, generic, keys, args)
	return reply, l.s.store.explain(err)
}

// proveAgain is how long after a failure the next proof is tried: the user may lack a
// permission, or a proxy stand between. Until then it is slower, and as safe.
const proveAgain = 30 * time.Second

// prove loads the scripts in the background.
func (l *runProof) prove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proving {
		return
	}
	l.proving = true
	go func() {
		ctx, cancel := context.WithTimeout(l.s.ctx, proveAgain)
		defer cancel()
		if l.s.store.client.Prove(ctx, l.s.store.bucket(l.s.shard), l.runID, l.full) != nil {
			<-ctx.Done()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.proving = false
		l.missing.Store(false) // the next call finds out
	}()
}
