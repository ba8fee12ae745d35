// SPDX-License-Identifier: Apache-2.0

// Package fencelock is as much of fencelock as the tests of the analyzers need. A test in lab/vet compares
// each declaration with the real one.
package fencelock

import (
	"context"
	"time"
)

type Token uint64

type Store interface{}

type Options struct{ Owner string }

type Client struct{}

func New(store Store, opts *Options) (*Client, error)

func (c *Client) Close(ctx context.Context) error
func (c *Client) Do(ctx context.Context, name string, fn func(ctx context.Context, l *Lease) error) error
func (c *Client) LockAll(ctx context.Context, names []string, opts ...LockOption) (*LeaseSet, error)
func (c *Client) TryLockAll(ctx context.Context, names []string, opts ...LockOption) (*LeaseSet, error)
func (c *Client) Mutex(name string, opts ...LockOption) *Mutex
func (c *Client) RWMutex(name string, opts ...LockOption) *RWMutex
func (c *Client) Semaphore(name string, limit int64, opts ...LockOption) *Semaphore
func (c *Client) Once(name string, keep time.Duration, opts ...LockOption) *Once
func (c *Client) Election(name string, opts ...LockOption) *Election

type LockOption struct{}

func MaxHold(d time.Duration) LockOption
func ReentrantAs(id string) LockOption

type Mutex struct{}

func (m *Mutex) Lock(ctx context.Context) (*Lease, error)
func (m *Mutex) TryLock(ctx context.Context) (*Lease, error)
func (m *Mutex) Do(ctx context.Context, fn func(ctx context.Context, l *Lease) error) error

type RWMutex struct{}

func (m *RWMutex) Lock(ctx context.Context) (*Lease, error)
func (m *RWMutex) TryLock(ctx context.Context) (*Lease, error)
func (m *RWMutex) RLock(ctx context.Context) (*Lease, error)
func (m *RWMutex) TryRLock(ctx context.Context) (*Lease, error)
func (m *RWMutex) Do(ctx context.Context, fn func(ctx context.Context, l *Lease) error) error
func (m *RWMutex) DoRead(ctx context.Context, fn func(ctx context.Context, l *Lease) error) error

type Semaphore struct{}

func (s *Semaphore) Acquire(ctx context.Context, weight int64) (*Lease, error)
func (s *Semaphore) TryAcquire(ctx context.Context, weight int64) (*Lease, error)
func (s *Semaphore) Do(ctx context.Context, weight int64, fn func(ctx context.Context, l *Lease) error) error

type Once struct{}

type OnceResult struct{}

func (o *Once) Do(ctx context.Context, occurrence string, fn func(ctx context.Context, l *Lease) error) (OnceResult, error)

type Election struct{}

func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term *Lease) error) error
func (e *Election) Term() *Lease

type Lease struct{}

func FromContext(ctx context.Context, name string) *Lease

func (l *Lease) Contended() <-chan struct{}
func (l *Lease) Context() context.Context
func (l *Lease) Deadline() time.Time
func (l *Lease) Err() error
func (l *Lease) Name() string
func (l *Lease) Token() Token
func (l *Lease) Unlock(ctx context.Context) error
func (l *Lease) Valid() bool
func (l *Lease) WithContext(ctx context.Context) (context.Context, context.CancelFunc)

type LeaseSet struct{}

func (s *LeaseSet) Context() context.Context
func (s *LeaseSet) Lease(name string) *Lease
func (s *LeaseSet) Leases() []*Lease
func (s *LeaseSet) Unlock(ctx context.Context) error
func (s *LeaseSet) Valid() bool

type EventKind uint8

const LeaseLost EventKind = 1

var ErrBusy, ErrGrace, ErrLost error
