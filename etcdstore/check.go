// SPDX-License-Identifier: Apache-2.0

package etcdstore

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

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
// answered at all. The codes are alarm, leader, learner, member, quota, unchecked,
// unreachable, version; findings without a Node are about the cluster.
//
// Clocks are not looked at: etcd does not tell the time, and its leases do not depend on
// the time of day.
func (s *Store) Check(ctx context.Context) ([]driver.Finding, error) {
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
func judge(f facts) []driver.Finding {
	var found []driver.Finding
	add := func(s driver.Severity, code, node, fix, reason string, args ...any) {
		found = append(found, driver.Finding{Severity: s, Code: code, Node: node, Reason: fmt.Sprintf(reason, args...), Fix: fix})
	}
	for _, a := range f.alarms {
		switch a.Alarm {
		case pb.AlarmType_NOSPACE:
			add(driver.Danger, "alarm", "", "compact, defragment, then etcdctl alarm disarm; set --auto-compaction-retention",
				"member %x is full (NOSPACE): nothing is granted or given back, and leases still end", a.MemberID)
		default:
			add(driver.Danger, "alarm", "", "restore the member, then etcdctl alarm disarm", "member %x has raised the alarm %v", a.MemberID, a.Alarm)
		}
	}
	versions := map[string]bool{}
	for i, endpoint := range f.endpoints {
		switch st := f.statuses[i]; {
		case f.errs[i] != nil && hidden(f.errs[i]):
			add(driver.Note, "unchecked", endpoint, "ask with a user that may, or etcdctl endpoint status", "this user may not ask for its status")
		case f.errs[i] != nil:
			add(driver.Warning, "unreachable", endpoint, "start it, or take it out of the URL if it is gone for good",
				"it does not answer: the cluster stands one failure fewer, and a client that meets it first waits")
		default:
			versions[st.Version] = true
			found = append(found, judgeMember(endpoint, st)...)
		}
	}
	if len(versions) > 1 {
		add(driver.Note, "version", "", "finish the upgrade", "members have different versions: they work as the oldest does")
	}
	if voters := slices.DeleteFunc(slices.Clone(f.members), func(m *pb.Member) bool { return m.IsLearner }); len(voters) > len(f.endpoints) {
		add(driver.Note, "member", "", "name all members in the URL", "the cluster has %d voting members, and the client knows %d: it cannot go on with the others",
			len(voters), len(f.endpoints))
	} else if len(voters) > 0 && len(voters)%2 == 0 {
		add(driver.Note, "member", "", "use an odd number of members", "%d voting members stand as few failures as %d do", len(voters), len(voters)-1)
	}
	if f.alarmsErr != nil {
		add(driver.Note, "unchecked", "", "ask with a user that may, or etcdctl alarm list", "alarms could not be asked for")
	}
	return found
}

// defaultQuota is etcd's own, used where a server before 3.6 does not tell.
const defaultQuota = 2 << 30

// judgeMember looks at the status of one member.
func judgeMember(node string, st *pb.StatusResponse) []driver.Finding {
	var found []driver.Finding
	add := func(s driver.Severity, code, reason, fix string) {
		found = append(found, driver.Finding{Severity: s, Code: code, Node: node, Reason: reason, Fix: fix})
	}
	if !atLeast(st.Version, 3, 4) {
		add(driver.Danger, "version", "etcd "+st.Version+" is too old: nothing here was tried before 3.4", "use 3.4 or later")
	}
	if st.Leader == 0 {
		add(driver.Danger, "leader", "it knows no leader: it is cut off, or a majority is down; it grants nothing",
			"look at its network, and start the other members")
	}
	if st.IsLearner {
		add(driver.Warning, "learner", "it is a learner, which serves no locks", "promote it, or take it out of the URL")
	}
	quota, whose := st.DbSizeQuota, "its quota"
	if quota == 0 {
		quota, whose = defaultQuota, "etcd's default quota (it does not tell its own)"
	}
	if st.DbSize > quota/10*8 {
		add(driver.Warning, "quota", fmt.Sprintf("its database has %d MiB, %d of them in use, and %s is %d MiB: a full member refuses writes, "+
			"so nothing is granted or given back", st.DbSize>>20, st.DbSizeInUse>>20, whose, quota>>20),
			"set --auto-compaction-retention, defragment, or raise --quota-backend-bytes")
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
