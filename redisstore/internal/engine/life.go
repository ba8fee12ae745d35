// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// ErrNoScript is returned by Client.Eval for a script without a text that is not in
// the server.
var ErrNoScript = errors.New("redisstore: the script is not loaded")

// life is the proof that a server is still in the life in which a session was
// opened. Every grant needs it: a server that restarted, or a replica that took
// over, may have lost what the counter of tokens was. To ask with INFO costs as much
// as the rest of a grant three times over.
//
// A server keeps scripts in the memory of its process alone: they are neither saved
// nor replicated (Redis 7.0 and later, Valkey; InLife refuses others). So the scripts of a life carry its
// run id in their text, and are loaded over a connection on which INFO just said
// that run id. A connection ends with the life of its server, so such a text is in
// no other. That it can be called by its SHA is the proof, and costs nothing:
//
//	INFO ──▶ run id R ──SCRIPT LOAD "LIFE = R …"──▶ in the server until it ends
//	EVALSHA sha("LIFE = R …") ──▶ runs: this is R │ NOSCRIPT: ask INFO, load again
//
// The text must never be sent by EVAL: that would load it into whatever life it
// meets. The rejected way was a channel named after the run id, with PUBSUB NUMSUB
// in the script: 3 µs a call, a connection for each process, and no way to be sure
// of a client library that subscribes again by itself.
//
// Not proved: that a server which was made a replica and promoted again without a
// restart still has its memory. The marker tells if any session came by meanwhile.
type life struct {
	s       *session
	runID   string
	scripts map[*Script]*Script // as they are in this life, without text
	texts   []string

	missing atomic.Bool // not in the server, as far as we know
	mu      sync.Mutex
	proving bool
}

// InLife says whether what INFO answered is of a server in the life with that run id,
// and whether that server keeps scripts to itself: before 7.0 they were replicated.
func InLife(info, runID string) error {
	version := redisVersion.FindStringSubmatch(info)
	if version == nil {
		return errors.New("redisstore: the server does not say its version")
	}
	if major, _ := strconv.Atoi(version[1]); major < 7 {
		return errors.New("redisstore: servers before 7.0 replicate scripts")
	}
	if !strings.Contains(info, "run_id:"+runID+"\r") {
		return errors.New("redisstore: another life of the server")
	}
	return nil
}

var redisVersion = regexp.MustCompile(`redis_version:(\d+)\.`)

// hasRunID keeps anything else than a run id out of a script's text.
var hasRunID = regexp.MustCompile(`^[0-9a-zA-Z]+$`)

// frequent are the scripts worth a text of their own.
var frequent = []*Script{foldScript, attemptScript, withdrawScript}

func (l *life) init(s *session, runID string) {
	l.s, l.runID = s, runID
	if !hasRunID.MatchString(runID) {
		l.missing.Store(true)
		return
	}
	l.scripts = map[*Script]*Script{}
	for _, generic := range frequent {
		own := generic.in(runID)
		l.texts = append(l.texts, own.Text)
		own.Text = ""
		l.scripts[generic] = own
	}
}

// call runs a script as it is in this life if it is loaded; otherwise the one that
// asks, and loads the other meanwhile.
func (l *life) call(ctx context.Context, line Line, generic *Script, args []string) ([]any, error) {
	keys := []string{l.s.store.bucket(l.s.shard)}
	if own := l.scripts[generic]; own != nil && !l.missing.Load() {
		reply, err := line.Eval(ctx, own, keys, args)
		if !errors.Is(err, ErrNoScript) {
			return reply, err
		}
		l.missing.Store(true)
		l.prove()
	}
	return line.Eval(ctx, generic, keys, args)
}

// proveAgain is how long after a failure the next proof is tried: the user may lack a
// permission, or a proxy stand between. Until then it is slower, and as safe.
const proveAgain = 30 * time.Second

// prove loads the scripts in the background.
func (l *life) prove() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.proving {
		return
	}
	l.proving = true
	go func() {
		ctx, cancel := context.WithTimeout(l.s.ctx, proveAgain)
		defer cancel()
		if l.s.store.client.Prove(ctx, l.s.store.bucket(l.s.shard), l.runID, l.texts) != nil {
			<-ctx.Done()
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.proving = false
		l.missing.Store(false) // a call will tell
	}()
}
