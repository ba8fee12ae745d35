// SPDX-License-Identifier: Apache-2.0

package interop

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

// etcdPeerWord as the first argument makes the test program a process with package concurrency, driven by lines as the peers
// in Java are: one that can be killed and paused.
const etcdPeerWord = "etcd-peer"

// concurrencyPeer is such a process. An actor has a session.
type concurrencyPeer struct {
	client *clientv3.Client
	ttl    int

	mu     sync.Mutex
	actors map[string]*concurrencyActor
	out    sync.Mutex
}

// concurrencyActor takes one lock, or in cycles one after the other.
type concurrencyActor struct {
	session  *concurrency.Session
	mutex    *concurrency.Mutex
	election *concurrency.Election
	waits    context.Context // of its wait, until giveUp
	giveUp   context.CancelFunc
}

// runConcurrencyPeer runs the process: its arguments are the server and the TTL of sessions in milliseconds.
func runConcurrencyPeer(args []string) error {
	ttl, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(args[0], ","), Logger: zap.NewNop()})
	if err != nil {
		return err
	}
	p := &concurrencyPeer{client: client, ttl: ttl / 1000, actors: map[string]*concurrencyActor{}}
	fmt.Println("ready concurrency")
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Split(lines.Text(), " ")
		go p.take(words)
	}
	return lines.Err()
}

func (p *concurrencyPeer) take(words []string) {
	begin := time.Now()
	value, err := p.act(words[1], words[2], words[3], words[4], words[5:]...)
	word := "ok"
	if err != nil {
		word, value = "err", strings.ReplaceAll(err.Error(), "\n", " ")
	}
	p.out.Lock()
	defer p.out.Unlock()
	fmt.Println(words[0], word, begin.UnixMicro(), time.Now().UnixMicro(), value)
}

// actor returns an actor, with a session.
func (p *concurrencyPeer) actor(name, lock string) (*concurrencyActor, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := p.actors[name]
	if a == nil {
		s, err := concurrency.NewSession(p.client, concurrency.WithTTL(p.ttl))
		if err != nil {
			return nil, err
		}
		a = &concurrencyActor{session: s, mutex: concurrency.NewMutex(s, lock), election: concurrency.NewElection(s, lock)}
		a.waits, a.giveUp = context.WithCancel(context.Background())
		p.actors[name] = a
	}
	return a, nil
}

func (p *concurrencyPeer) act(actor, verb, kind, name string, args ...string) (string, error) {
	a, err := p.actor(actor, name)
	if err != nil {
		return "", err
	}
	ctx := context.Background()
	switch verb + " " + kind {
	case "CYCLE mutex":
		return a.cycle(name, args[0])
	case "LOCK mutex":
		return a.mutex.Key(), a.mutex.Lock(a.waits)
	case "LOCK election":
		return "", a.election.Campaign(a.waits, actor)
	case "UNLOCK mutex":
		return "", a.mutex.Unlock(ctx)
	case "UNLOCK election":
		return "", a.election.Resign(ctx)
	case "LEADER election":
		r, err := a.election.Leader(ctx)
		if err != nil {
			return "", err
		}
		return string(r.Kvs[0].Value), nil
	case "GIVEUP mutex", "GIVEUP election":
		a.giveUp()
		return "", nil
	}
	return "", fmt.Errorf("unknown request %s %s", verb, kind)
}

// cycle holds a lock for some milliseconds, and answers from when until when, or that it was lost.
func (a *concurrencyActor) cycle(name, millis string) (string, error) {
	length, err := strconv.Atoi(millis)
	if err != nil {
		return "", err
	}
	m, ctx := concurrency.NewMutex(a.session, name), context.Background()
	if err := m.Lock(ctx); err != nil {
		return "", err
	}
	from := time.Now()
	time.Sleep(time.Duration(length) * time.Millisecond)
	until := time.Now()
	select {
	case <-a.session.Done():
		return "lost", nil
	default:
	}
	return fmt.Sprint(from.UnixMicro(), until.UnixMicro()), m.Unlock(ctx)
}
