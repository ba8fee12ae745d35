// SPDX-License-Identifier: Apache-2.0

package zktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
)

// report is what one server answered, for judge.
type report struct {
	server     string
	srvr, conf string
	err        error // srvr was not answered
}

const (
	// answerWithin is how long a server may take to answer: one that is down does not
	// answer at all.
	answerWithin = 3 * time.Second
	// maxAnswer bounds an answer that is read; those of a server have some hundred bytes.
	maxAnswer = 64 << 10
)

// Check asks every server that the store knows whether it is fit to keep locks, and returns
// what is not, with what to change; an empty list is a good answer. It sends the four-letter
// words srvr and conf and writes nothing. What 4lw.commands.whitelist hides is a finding,
// too. The error reports that no server answered at all. The codes are member, separate-servers,
// serving, session-timeout, standalone, tick-time, unchecked, unreachable and version; findings
// without a Node are about the ensemble.
//
// Whether a server writes to disk before it answers (forceSync) cannot be read.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	reports := make([]report, len(s.servers))
	var asking sync.WaitGroup
	for i, server := range s.servers {
		asking.Go(func() {
			r := report{server: server}
			if r.srvr, r.err = s.word(ctx, server, "srvr"); r.err == nil {
				r.conf, _ = s.word(ctx, server, "conf") // an empty one is a finding
			}
			reports[i] = r
		})
	}
	asking.Wait()
	var errs []error
	for _, r := range reports {
		if r.err == nil {
			return s.judge(reports), nil
		}
		errs = append(errs, r.err)
	}
	return nil, s.errorf("check: %w: %w", driver.ErrUnavailable, errors.Join(errs...))
}

// word sends a four-letter word and returns the answer, after which the server closes the
// connection.
func (s *Store) word(ctx context.Context, server, word string) (string, error) {
	conn, err := s.opts.Dial(ctx, "tcp", server)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := io.WriteString(conn, word); err != nil {
		return "", fmt.Errorf("%s of %s: %w", word, server, err)
	}
	answer, err := io.ReadAll(io.LimitReader(conn, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("%s of %s: %w", word, server, err)
	}
	return string(answer), nil
}
