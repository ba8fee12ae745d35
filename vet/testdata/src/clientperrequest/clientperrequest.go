// SPDX-License-Identifier: Apache-2.0

package clientperrequest

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fencelock/fencelock"
)

var store fencelock.Store

func use(c *fencelock.Client) error { return nil }

// Reported.

func handle(w http.ResponseWriter, r *http.Request) {
	c, err := fencelock.New(store, nil) // want `fencelock.New makes a client for each request, each with its own session and heartbeat: make one per process`
	if err != nil {
		return
	}
	defer c.Close(r.Context())
	_ = use(c)
}

func register(mux *http.ServeMux) {
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c, _ := fencelock.New(store, nil) // want `makes a client for each request`
		_ = use(c)
	})
}

type SaveRequest struct{}
type SaveResponse struct{}
type server struct {
	locks *fencelock.Client
	store fencelock.Store
	byKey map[string]*fencelock.Client
	atom  atomic.Pointer[fencelock.Client]
	once  sync.Once
}

func (s *server) Save(ctx context.Context, r *SaveRequest) (*SaveResponse, error) {
	c, err := fencelock.New(s.store, &fencelock.Options{Owner: "save"}) // want `makes a client for each request`
	if err != nil {
		return nil, err
	}
	return &SaveResponse{}, use(c)
}

func connect() (*fencelock.Client, error) {
	c, err := fencelock.New(store, nil)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func throughAFunction(w http.ResponseWriter, r *http.Request) {
	c, err := connect() // want `connect makes a client for each request`
	if err == nil {
		_ = use(c)
	}
}

func loop(jobs []string) error {
	for range jobs {
		c, err := fencelock.New(store, nil) // want `makes a client in each round of the loop`
		if err != nil {
			return err
		}
		if err := use(c); err != nil {
			return err
		}
	}
	return nil
}

type stream interface {
	Context() context.Context
	SendMsg(m any) error
	RecvMsg(m any) error
}

func (s *server) Watch(r *SaveRequest, stream stream) error {
	c, err := fencelock.New(s.store, nil) // want `makes a client for each request`
	if err != nil {
		return err
	}
	return use(c)
}

type Message struct{}

func consume(ctx context.Context, m *Message) error {
	c, err := fencelock.New(store, nil) // want `makes a client for each request`
	if err != nil {
		return err
	}
	return use(c)
}

// Not reported.

func middleware(next http.Handler) (http.Handler, error) {
	c, err := fencelock.New(store, nil)
	if err != nil {
		return nil, err
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = use(c)
		next.ServeHTTP(w, r)
	}), nil
}

func (s *server) lazy(w http.ResponseWriter, r *http.Request) {
	if s.locks == nil {
		s.locks, _ = fencelock.New(store, nil)
	}
}

func (s *server) cached(w http.ResponseWriter, r *http.Request) {
	if s.byKey["a"] == nil {
		c, err := fencelock.New(store, nil)
		if err != nil {
			return
		}
		s.byKey["a"] = c
	}
}

func (s *server) stored(w http.ResponseWriter, r *http.Request) {
	if s.atom.Load() == nil {
		c, _ := fencelock.New(store, nil)
		s.atom.CompareAndSwap(nil, c)
	}
}

func (s *server) onlyOnce(w http.ResponseWriter, r *http.Request) {
	s.once.Do(func() {
		c, _ := fencelock.New(store, nil)
		_ = use(c)
	})
}

func perStore(stores []fencelock.Store) error {
	for _, store := range stores {
		c, err := fencelock.New(store, nil)
		if err != nil {
			return err
		}
		if err := use(c); err != nil {
			return err
		}
	}
	return nil
}

func collected(n int) (list []*fencelock.Client, err error) {
	for range n {
		c, err := fencelock.New(store, nil)
		if err != nil {
			return nil, err
		}
		list = append(list, c)
	}
	return list, nil
}

func retry() error {
	for {
		c, err := fencelock.New(store, nil)
		if err == nil {
			return use(c)
		}
		time.Sleep(time.Second)
	}
}

func run(ctx context.Context) error {
	c, err := fencelock.New(store, nil)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	return use(c)
}
