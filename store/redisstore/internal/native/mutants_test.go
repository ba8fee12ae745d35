// SPDX-License-Identifier: Apache-2.0

package native_test

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/memstore"
	"github.com/fencelock/fencelock/store/redisstore/internal/native"
	"github.com/fencelock/fencelock/store/redisstore/internal/redistest"
	"github.com/redis/go-redis/v9"
)

var (
	findScene   = flag.Bool("lists.find", false, "find the first scene that kills each mutant")
	onlyMutants = flag.String("lists.mutants", "", "try only the mutants whose names begin so")
)

// scriptMutant breaks a script of the store of lists. It must be killed by a scene.
type scriptMutant struct {
	name, file, scene string
	from, to          string
}

// recording is a test in which a scene fails.
type recording struct{ failure string }

// Helper implements tb.
func (r *recording) Helper() {}

// Fatalf implements tb.
func (r *recording) Fatalf(format string, args ...any) {
	r.failure = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// stage is where scenes are played.
type stage struct {
	p      *pretense
	client *redis.Client
}

// run plays a scene in all ways in which a store may work, and returns how it failed, or an
// empty string.
func (s stage) run(sc scene) string {
	for _, way := range ways {
		var r recording
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer func() {
				if e := recover(); e != nil { // an answer that no step expects
					r.failure = fmt.Sprint(e)
				}
			}()
			s.play(&r, sc, way)
		}()
		if <-done; r.failure != "" {
			return r.failure
		}
	}
	return ""
}

func (s stage) play(t tb, sc scene, way way) {
	s.p.begin()
	s.p.mu.Lock()
	s.p.proven = way.proven
	s.p.mu.Unlock()
	namespace := fmt.Sprintf("%sScenes-%t%s", lists, sc.grace, way.suffix)
	clocks.Store(namespace, func() time.Time { return s.p.now })
	w := newWorld(t, s.p, nil, &memstore.Options{Grace: sc.grace})
	w.must(s.p.become(w.ctx, nil))
	store := newStoreIn(t, s.client, namespace, sc.grace)
	w.another = func() driver.Store { return newStoreIn(t, s.client, namespace, sc.grace) }
	w.real, w.scripted = store, way.suffix == scripted || !way.proven
	if sc.grace { // an unused server begins with a grace period, the model does not
		w.must(store.SetLimit(w.ctx, w.names[0], 0))
		s.p.now = s.p.now.Add(maxTTL + tick).Truncate(tick)
		w.must(s.p.write(w.ctx))
	}
	sc.play(w)
}

// TestScenes: the scenes that mutants are tried in pass without one.
func TestScenes(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	for _, sc := range slices.Concat(scenes, lossScenes, rawScenes, ruleScenes, failbackScenes) {
		if failure := (stage{p, client}).run(sc); failure != "" {
			t.Errorf("%s: %s", sc.name, failure)
		}
	}
}

// TestScriptMutants: every rule of the scripts is needed. Without it a scene ends in
// another way than in the model.
func TestScriptMutants(t *testing.T) {
	t.Parallel()
	p, client := newPretense(t, redistest.Start(t).Addr)
	all := slices.Concat(scenes, lossScenes, rawScenes, ruleScenes, failbackScenes)
	for _, m := range scriptMutants {
		if !strings.HasPrefix(m.name, *onlyMutants) {
			continue
		}
		if err := p.mutate(m.file, m.from, m.to); err != nil {
			t.Errorf("mutant %s: %v", m.name, err)
			continue
		}
		if *findScene {
			at := slices.IndexFunc(all, func(sc scene) bool { return (stage{p, client}).run(sc) != "" })
			t.Logf("mutant %s: %v", m.name, append([]scene{{name: "survived"}}, all...)[at+1].name)
			continue
		}
		at := slices.IndexFunc(all, func(sc scene) bool { return sc.name == m.scene })
		if at < 0 {
			t.Errorf("mutant %s: there is no scene %q", m.name, m.scene)
		} else if (stage{p, client}).run(all[at]) == "" {
			t.Errorf("mutant %s survived the scene %q", m.name, m.scene)
		}
	}
}

// mutate changes a script of the store of lists from now on, and no other.
func (p *pretense) mutate(file, from, to string) error {
	raw, err := os.ReadFile("lua/" + file + ".lua")
	if err != nil {
		return err
	}
	if n := strings.Count(string(raw), from); n != 1 {
		return fmt.Errorf("its text is %d times in %s.lua, want once; adapt it to the code", n, file)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sha = map[string]changed{}
	first, rest := native.Source(file, string(raw))
	mutantFirst, mutantRest := native.Source(file, strings.Replace(string(raw), from, to, 1))
	p.mutant = strings.NewReplacer(rest, mutantRest)
	if first != mutantFirst {
		p.mutant = strings.NewReplacer(first, mutantFirst)
	}
	return nil
}
