// SPDX-License-Identifier: Apache-2.0

package target

import (
	"context"
	"strings"
)

// Redises are servers that know nothing of each other, as a quorum wants them.
type Redises struct{ nodes []*Redis }

// StartFive starts five servers. The caller stops them.
func StartFive(ctx context.Context) (Server, error) {
	r := &Redises{}
	for range 5 {
		s, err := StartRedis(ctx)
		if err != nil {
			r.Stop()
			return nil, err
		}
		r.nodes = append(r.nodes, s.(*Redis))
	}
	return r, nil
}

// Addr implements Server: the addresses with commas between them.
func (r *Redises) Addr() string {
	var addrs []string
	for _, n := range r.nodes {
		addrs = append(addrs, n.Addr())
	}
	return strings.Join(addrs, ",")
}

// Version implements Server.
func (r *Redises) Version(ctx context.Context) (string, error) {
	v, err := r.nodes[0].Version(ctx)
	return "five servers " + v, err
}

// Stall suspends one of them until resume is called: it takes what is sent to it
// and does not answer.
func (r *Redises) Stall() (resume func()) { return r.nodes[len(r.nodes)-1].Pause() }

// Kill ends one of them.
func (r *Redises) Kill() {
	last := len(r.nodes) - 1
	r.nodes[last].Stop()
	r.nodes = r.nodes[:last]
}

// ResetStats implements Server, for those that answer: the last one may be
// stalled, so it is never asked.
func (r *Redises) ResetStats(ctx context.Context) error {
	for _, n := range r.asked() {
		if err := n.ResetStats(ctx); err != nil {
			return err
		}
	}
	return nil
}

// asked are the servers that are asked for what they counted: four of five.
func (r *Redises) asked() []*Redis { return r.nodes[:min(4, len(r.nodes))] }

// Stats implements Server. It is the sum of four servers.
func (r *Redises) Stats(ctx context.Context) (Stats, error) {
	sum := Stats{}
	for _, n := range r.asked() {
		s, err := n.Stats(ctx)
		if err != nil {
			return nil, err
		}
		sum.add(s)
	}
	return sum, nil
}

// CPU implements Server. It is the sum of four servers.
func (r *Redises) CPU(ctx context.Context) (float64, error) { return r.sum(ctx, (*Redis).CPU) }

// Memory implements Server. It is the sum of four servers.
func (r *Redises) Memory(ctx context.Context) (float64, error) { return r.sum(ctx, (*Redis).Memory) }

// Data is Memory without the buffers of connections.
func (r *Redises) Data(ctx context.Context) (float64, error) { return r.sum(ctx, (*Redis).Data) }

func (r *Redises) sum(ctx context.Context, of func(*Redis, context.Context) (float64, error)) (sum float64, err error) {
	for _, n := range r.asked() {
		v, err := of(n, ctx)
		if err != nil {
			return 0, err
		}
		sum += v
	}
	return sum, nil
}

// Stop implements Server.
func (r *Redises) Stop() {
	for _, n := range r.nodes {
		n.Stop()
	}
}
