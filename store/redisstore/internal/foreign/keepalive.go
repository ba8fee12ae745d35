// SPDX-License-Identifier: Apache-2.0

package foreign

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

// perScript is how many locks one script renews or frees: a server runs nothing else in the
// meantime.
const perScript = 250

// atOnce is how many scripts of one renewal are under way together. One after the other, the round
// trips of many scripts would take longer than the time that a renewal has.
const atOnce = 8

// KeepAlive implements driver.Session. Each script renews some of the session's locks: the first
// one the session, too, and the last one returns the broken claims.
func (s *session) KeepAlive(ctx context.Context) (driver.Renewal, error) {
	return s.keepAlive(ctx, true)
}

// keepAlive is KeepAlive. With compare it finds the claims that the server lost or got back.
func (s *session) keepAlive(ctx context.Context, compare bool) (driver.Renewal, error) {
	round := s.claims.begin()
	defer s.claims.end()
	r := renewal{session: s, ctx: ctx, round: round}
	ends := s.claims.pages(perScript)
	from := "0"
	if len(ends) > 0 {
		r.page("0", number(ends[0]), "1", "0")
		r.between(ends)
		from = number(ends[len(ends)-1])
	}
	r.page(from, "+inf", flag(len(ends) == 0), "1")
	if r.err != nil {
		return driver.Renewal{}, r.err
	}
	if compare {
		if err := r.mend(); err != nil {
			return driver.Renewal{}, err
		}
	}
	return driver.Renewal{TTL: s.ttl, Broken: r.broken}, nil
}

// renewal is one renewal under way.
type renewal struct {
	*session
	ctx   context.Context
	round uint64

	mu sync.Mutex
	// left are the claims whose withdrawal was lost.
	left   []uint64
	broken []uint64
	err    error
}

// between renews the pages between the first and the last one, several at once.
func (r *renewal) between(ends []uint64) {
	var all sync.WaitGroup
	slots := make(chan struct{}, atOnce)
	for i := 1; i < len(ends); i++ {
		slots <- struct{}{}
		all.Go(func() {
			r.page(number(ends[i-1]), number(ends[i]), "0", "0")
			<-slots
		})
	}
	all.Wait()
}

// page renews the claims above from, up to and with to, in several scripts if there are more than
// this process knows.
func (r *renewal) page(from, to, first, last string) {
	for r.failed() == nil {
		reply, err := r.store.call(r.ctx, "keep alive", keepScript, r.keys, from, to, uuid(r.id), strconv.Itoa(perScript), first, last)
		if err != nil {
			r.fail(err)
			return
		}
		p := rediscmd.Reader{Rest: reply}
		if p.Text() == "gone" {
			r.fail(r.gone("keep alive"))
			return
		}
		more := p.Text()
		left := r.claims.found(r.round, numbers(p.List()))
		broken := numbers(p.List())
		r.mu.Lock()
		r.left, r.broken = append(r.left, left...), append(r.broken, broken...)
		r.mu.Unlock()
		if more == "0" {
			return
		}
		from, first = more, "0"
	}
}

func (r *renewal) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil {
		r.err = err
	}
}

func (r *renewal) failed() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// mend asks again about claims that were not found, and frees those that are left over.
func (r *renewal) mend() error {
	seqs, keys := r.claims.missing(r.round, r.broken)
	for _, seq := range r.left {
		seqs, keys = append(seqs, seq), append(keys, "")
	}
	for part := range slices.Chunk(seqs, perScript) {
		args := []string{uuid(r.id), strconv.Itoa(int(r.store.opts.Kind)), r.store.waking(), r.opened}
		for i, seq := range part {
			args = append(args, number(seq), keys[i])
		}
		keys = keys[len(part):]
		reply, err := r.store.call(r.ctx, "keep alive", mendScript, r.keys, args...)
		if err != nil {
			return err
		}
		p := rediscmd.Reader{Rest: reply}
		if p.Text() == "gone" {
			return r.gone("keep alive")
		}
		r.broken = numbers(p.List())
	}
	return nil
}

func number(seq uint64) string { return strconv.FormatUint(seq, 10) }

// numbers reads a list of claims.
func numbers(list []any) (seqs []uint64) {
	for _, v := range list {
		text, _ := v.(string)
		if seq, err := strconv.ParseUint(text, 10, 64); err == nil {
			seqs = append(seqs, seq)
		}
	}
	return seqs
}
