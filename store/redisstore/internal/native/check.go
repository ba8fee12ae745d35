// SPDX-License-Identifier: Apache-2.0

package native

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/store/redisstore/internal/rediscmd"
)

var permits = read("permits")

// askedAtOnce is over how many connections Check reads run ids. A proxy in
// front of two servers shows both with a probability of 1 - 2^-(n-1).
const askedAtOnce = 6

// facts is what a server said, for judge.
type facts struct {
	addr string
	// info is INFO; nil if it was refused, see infoErr.
	info    map[string]string
	infoErr error
	// runs are the run ids seen, over several connections.
	runs []string
	// ahead is how far the server's clock is ahead of ours, give or take half of
	// trip. It is not known if timeErr is set.
	ahead, trip time.Duration
	timeErr     error
	// forbidden are the ACL rules the user lacks, and missing those of commands that the server does not
	// have, or has under another name. Neither is known if permitsErr is set.
	forbidden, missing []string
	permitsErr         error
	// unscripted are the commands that failed inside a script although the user may
	// run them, with the reason.
	unscripted []string
}

// Check asks the servers behind the store whether they are fit to keep locks, and
// returns what is not, with the setting to change; nothing is a good answer. It
// writes nothing, and needs no more permissions than the store does. What these
// permissions hide is a finding, too. The error means that a server could not be
// asked; the findings then are about the others.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
	findings, err := s.check(ctx, askedAtOnce)
	if err == nil {
		findings = append(findings, s.unused(ctx)...)
		findings = append(findings, s.unasked(ctx)...)
	}
	return findings, err
}

// unused finds that no process has used the namespace, so that the first session will fix a number of buckets, which cannot be changed.
func (s *Store) unused(ctx context.Context) []driver.Finding {
	if s.opts.Buckets == 1 {
		return nil
	}
	// Whether it can be used is for others to find.
	if _, err := s.callWith(ctx, s.layout, inspectScript, firstShard, nil, "0", "0"); !errors.Is(err, errVacant) {
		return nil
	}
	return []driver.Finding{{Severity: driver.Note, Code: "unused",
		Reason: fmt.Sprintf("no process has used the namespace %q yet; the first one fixes its number of buckets", s.opts.Namespace),
		Fix:    "start a program that uses it, then check again"}}
}

// unasked finds that the namespace has grace and this process does not ask for it. It obeys, but if it is the first to come to a
// server that has lost everything, nobody knows of the grace.
func (s *Store) unasked(ctx context.Context) []driver.Finding {
	settings, err := s.Settings(ctx)
	if err != nil || s.opts.Grace {
		return nil
	}
	for _, one := range settings {
		if one.Name == "grace" && one.Value == "true" {
			return []driver.Finding{{Severity: driver.Warning, Code: "grace-not-asked",
				Reason: fmt.Sprintf("the namespace %q has grace, and this process does not ask for it: if it is the first to come after the server has lost everything, there is no grace period", s.opts.Namespace),
				Fix:    "add grace=true to the URL (Options{Grace: true})"}}
		}
	}
	return nil
}

// check asks all servers at once, each over several connections.
func (s *Store) check(ctx context.Context, connections int) ([]driver.Finding, error) {
	nodes, err := rediscmd.Within(ctx, func() ([]rediscmd.Node, error) { return s.client.Nodes(ctx) })
	if err != nil {
		return nil, fmt.Errorf("redisstore: check: find the servers: %w", err)
	}
	if len(nodes) == 0 {
		return nil, fmt.Errorf("redisstore: check: the client has no server that keeps locks")
	}
	all, errs := make([]facts, len(nodes)), make([]error, len(nodes))
	var asking sync.WaitGroup
	for i, node := range nodes {
		asking.Go(func() {
			all[i], errs[i] = rediscmd.Within(ctx, func() (facts, error) { return s.ask(ctx, node, connections) })
		})
	}
	asking.Wait()
	var findings []driver.Finding
	var failed error
	for i, f := range all {
		if errs[i] != nil {
			failed = fmt.Errorf("redisstore: check: %s: %w", nodes[i].Addr, errs[i])
			continue
		}
		findings = append(findings, s.judge(f)...)
	}
	return findings, failed
}

// ask collects the facts about a server.
func (s *Store) ask(ctx context.Context, node rediscmd.Node, connections int) (facts, error) {
	f := facts{addr: node.Addr}
	replies, err := node.Ask(ctx, connections, "INFO")
	switch {
	case err == nil:
		for _, r := range replies {
			text, _ := r.(string)
			f.info = fields(text)
			f.runs = append(f.runs, f.info["run_id"])
		}
	case rediscmd.Forbidden(err), rediscmd.UnknownCommand(err):
		f.infoErr = err
	default:
		return f, err
	}
	sent := time.Now()
	replies, f.timeErr = node.Ask(ctx, 1, "TIME")
	f.trip = time.Since(sent)
	if f.timeErr == nil {
		f.ahead, f.timeErr = ahead(replies, sent.Add(f.trip/2))
	}
	f.permitsErr = s.permits(ctx, node, &f)
	if f.permitsErr != nil && rediscmd.UnknownCommand(f.permitsErr) {
		f.missing, f.permitsErr = []string{"eval"}, nil
	}
	return f, nil
}

// ahead reads the answer to TIME, given when it was made by our clock.
func ahead(replies []any, at time.Time) (time.Duration, error) {
	var pair []any
	if len(replies) == 1 {
		pair, _ = replies[0].([]any)
	}
	if len(pair) != 2 {
		return 0, fmt.Errorf("redisstore: TIME answered %v", replies)
	}
	sec, err1 := strconv.ParseInt(fmt.Sprint(pair[0]), 10, 64)
	usec, err2 := strconv.ParseInt(fmt.Sprint(pair[1]), 10, 64)
	if err1 != nil || err2 != nil {
		return 0, fmt.Errorf("redisstore: TIME answered %v", pair)
	}
	return time.Unix(sec, usec*1000).Sub(at), nil
}

// permits asks which of the needed commands are forbidden or missing, and which of them scripts may
// not call.
func (s *Store) permits(ctx context.Context, node rediscmd.Node, f *facts) error {
	needs := s.needs()
	args := []string{"EVAL", permits, "0"}
	for _, n := range needs {
		args = append(append(args, n.args...), "")
	}
	replies, err := node.Ask(ctx, 1, args...)
	if err != nil {
		return err
	}
	reply, _ := replies[0].([]any)
	if len(reply) == 0 || reply[0] != "OK" {
		return fmt.Errorf("the server is older than 7.0 and cannot report permissions")
	}
	for _, n := range reply[1:] {
		switch n := n.(type) {
		case int64:
			switch {
			case n >= 1 && int(n) <= len(needs):
				f.forbidden = append(f.forbidden, needs[n-1].rule)
			case n <= -1 && int(-n) <= len(needs):
				f.missing = append(f.missing, needs[-n-1].rule)
			}
		case string:
			f.unscripted = append(f.unscripted, n)
		}
	}
	return nil
}

// fields reads the lines "name:value" of INFO.
func fields(text string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[name] = value
		}
	}
	return m
}
