// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Severity says how bad a Finding is.
type Severity uint8

// The severities.
const (
	// Note: good to know, or it could not be checked.
	Note Severity = iota
	// Warning: locks work, but less well than one may think.
	Warning
	// Danger: locks do not work, or soon will not.
	Danger
)

// String returns the severity in lower case.
func (s Severity) String() string { return [...]string{"note", "warning", "danger"}[s] }

// Finding is one thing that Store.Check found about the cluster.
type Finding struct {
	// Severity is how bad it is.
	Severity Severity
	// Code names the kind of finding for programs. Codes are stable: alarm, leader,
	// learner, member, quota, unchecked, unreachable, version.
	Code string
	// Node is the address of the member; empty if it is about the cluster.
	Node string
	// Reason says what is so and why it matters.
	Reason string
	// Fix is what to change.
	Fix string
}

// String returns the finding as one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s: %s (%s); %s", cmp.Or(f.Node, "the cluster"), f.Severity, f.Reason, f.Code, f.Fix)
}

// facts is what the cluster said, for judge.
type facts struct {
	endpoints []string
	statuses  []*pb.StatusResponse // by endpoint; nil if errs says why
	errs      []error
	alarms    []*pb.AlarmMember
	alarmsErr error
	members   []*pb.Member // nil if they are not known
}

// askWithin is how long a member may take to say how it is: one that is down says
// nothing at all.
const askWithin = 3 * time.Second

// Check asks every member that the client knows whether it is fit to keep locks, and
// returns what is not, with what to change; nothing is a good answer. It writes nothing.
// What the user's permissions hide is a finding, too. The error says that no member
// answered at all.
//
// Clocks are not looked at: etcd does not tell the time, and its leases do not depend on
// the time of day.
func (s *Store) Check(ctx context.Context) ([]Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var f facts
	for _, endpoint := range s.client.Endpoints() {
		f.endpoints = append(f.endpoints, bare(endpoint))
	}
	f.statuses, f.errs = make([]*pb.StatusResponse, len(f.endpoints)), make([]error, len(f.endpoints))
	var asking sync.WaitGroup
	for i, endpoint := range s.client.Endpoints() {
		asking.Go(func() {
			r, err := s.client.Status(ctx, endpoint)
			f.statuses[i], f.errs[i] = (*pb.StatusResponse)(r), err
			if err != nil {
				f.statuses[i] = nil
			}
		})
	}
	asking.Go(func() {
		r, err := s.client.AlarmList(ctx)
		if f.alarmsErr = err; err == nil {
			f.alarms = r.Alarms
		}
	})
	asking.Go(func() {
		if r, err := s.client.MemberList(ctx, clientv3.WithSerializable()); err == nil {
			f.members = r.Members
		}
	})
	asking.Wait()
	if !slices.ContainsFunc(f.errs, func(err error) bool { return err == nil || hidden(err) }) {
		return nil, fail(ctx, "check", f.errs[0], reading)
	}
	return judge(f), nil
}

// bare is an endpoint without its scheme.
func bare(endpoint string) string {
	if _, addr, ok := strings.Cut(endpoint, "://"); ok {
		return addr
	}
	return endpoint
}

// hidden says whether somebody answered that we may not know.
func hidden(err error) bool {
	c := status.Code(err)
	return c == codes.PermissionDenied || c == codes.Unauthenticated || c == codes.InvalidArgument
}

// judge decides what is wrong.
func judge(f facts) []Finding {
	var found []Finding
	add := func(s Severity, code, node, fix, reason string, args ...any) {
		found = append(found, Finding{s, code, node, fmt.Sprintf(reason, args...), fix})
	}
	for _, a := range f.alarms {
		switch a.Alarm {
		case pb.AlarmType_NOSPACE:
			add(Danger, "alarm", "", "compact, defragment, then etcdctl alarm disarm; set --auto-compaction-retention",
				"member %x is full (NOSPACE): nothing is granted or given back, and leases still end", a.MemberID)
		default:
			add(Danger, "alarm", "", "restore the member, then etcdctl alarm disarm", "member %x has raised the alarm %v", a.MemberID, a.Alarm)
		}
	}
	versions := map[string]bool{}
	for i, endpoint := range f.endpoints {
		switch st := f.statuses[i]; {
		case f.errs[i] != nil && hidden(f.errs[i]):
			add(Note, "unchecked", endpoint, "ask with a user that may, or etcdctl endpoint status", "this user may not ask for its status")
		case f.errs[i] != nil:
			add(Warning, "unreachable", endpoint, "start it, or take it out of the URL if it is gone for good",
				"it does not answer: the cluster stands one failure fewer, and a client that meets it first waits")
		default:
			versions[st.Version] = true
			found = append(found, judgeMember(endpoint, st)...)
		}
	}
	if len(versions) > 1 {
		add(Note, "version", "", "finish the upgrade", "members have different versions: they work as the oldest does")
	}
	if voters := slices.DeleteFunc(slices.Clone(f.members), func(m *pb.Member) bool { return m.IsLearner }); len(voters) > len(f.endpoints) {
		add(Note, "member", "", "name all members in the URL", "the cluster has %d voting members, and the client knows %d: it cannot go on with the others",
			len(voters), len(f.endpoints))
	} else if len(voters) > 0 && len(voters)%2 == 0 {
		add(Note, "member", "", "use an odd number of members", "%d voting members stand as few failures as %d do", len(voters), len(voters)-1)
	}
	if f.alarmsErr != nil {
		add(Note, "unchecked", "", "ask with a user that may, or etcdctl alarm list", "alarms could not be asked for")
	}
	return found
}

// defaultQuota is etcd's own, used where a server before 3.6 does not tell.
const defaultQuota = 2 << 30

// judgeMember looks at the status of one member.
func judgeMember(node string, st *pb.StatusResponse) []Finding {
	var found []Finding
	if !atLeast(st.Version, 3, 4) {
		found = append(found, Finding{Danger, "version", node, "etcd " + st.Version + " is too old: nothing here was tried before 3.4", "use 3.4 or later"})
	}
	if st.Leader == 0 {
		found = append(found, Finding{Danger, "leader", node, "it knows no leader: it is cut off, or a majority is down; it grants nothing",
			"look at its network, and start the other members"})
	}
	if st.IsLearner {
		found = append(found, Finding{Warning, "learner", node, "it is a learner, which serves no locks", "promote it, or take it out of the URL"})
	}
	quota, whose := st.DbSizeQuota, "its quota"
	if quota == 0 {
		quota, whose = defaultQuota, "etcd's default quota (it does not tell its own)"
	}
	if st.DbSize > quota/10*8 {
		found = append(found, Finding{Warning, "quota", node, fmt.Sprintf("its database has %d MiB, %d of them in use, and %s is %d MiB: a full member refuses writes, "+
			"so nothing is granted or given back", st.DbSize>>20, st.DbSizeInUse>>20, whose, quota>>20),
			"set --auto-compaction-retention, defragment, or raise --quota-backend-bytes"})
	}
	return found
}

// atLeast compares a version such as 3.4.23. One that cannot be read is new enough.
func atLeast(version string, major, minor int) bool {
	parts := strings.SplitN(version, ".", 3)
	if len(parts) < 2 {
		return true
	}
	a, err1 := strconv.Atoi(parts[0])
	b, err2 := strconv.Atoi(parts[1])
	return err1 != nil || err2 != nil || a > major || a == major && b >= minor
}
