// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fencelock/fencelock/driver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// facts is what the cluster answered, for judge.
type facts struct {
	endpoints []string
	statuses  []*pb.StatusResponse // by endpoint; nil on an error, see errs
	errs      []error
	alarms    []*pb.AlarmMember
	alarmsErr error
	members   []*pb.Member // nil if they are not known
	jwt       bool         // the tokens of a user are JWTs, of a server that does not renew them
}

// askWithin is how long a member may take to report its status: one that is down does
// not answer at all.
const askWithin = 3 * time.Second

// Check is that of etcdstore.Store.
func (c *Cluster) Check(ctx context.Context) ([]driver.Finding, error) {
	ctx, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var f facts
	for _, endpoint := range c.Client.Endpoints() {
		f.endpoints = append(f.endpoints, bare(endpoint))
	}
	f.statuses, f.errs = make([]*pb.StatusResponse, len(f.endpoints)), make([]error, len(f.endpoints))
	var asking sync.WaitGroup
	for i, endpoint := range c.Client.Endpoints() {
		asking.Go(func() {
			r, err := c.Client.Status(ctx, endpoint)
			f.statuses[i], f.errs[i] = (*pb.StatusResponse)(r), err
			if err != nil {
				f.statuses[i] = nil
			}
		})
	}
	asking.Go(func() {
		r, err := c.Client.AlarmList(ctx)
		f.alarmsErr = err
		if err == nil {
			f.alarms = r.Alarms
		}
	})
	asking.Go(func() {
		if r, err := c.Client.MemberList(ctx, clientv3.WithSerializable()); err == nil {
			f.members = r.Members
		}
	})
	asking.Wait()
	if !slices.ContainsFunc(f.errs, func(err error) bool { return err == nil || hidden(err) }) {
		return nil, c.Fail(ctx, "check", f.errs[0], Reading)
	}
	f.jwt = c.Client.Username != "" && slices.ContainsFunc(f.statuses, func(st *pb.StatusResponse) bool {
		return st != nil && !atLeast(st.Version, 3, 5)
	}) && c.usesJWT(ctx)
	return judge(f), nil
}

// usesJWT reports whether the cluster gives its users JWTs, which begin with a JSON object in
// base64. A token that has ended is a sign of it, too: simple tokens are renewed by each use.
func (c *Cluster) usesJWT(ctx context.Context) bool {
	r, err := c.Client.Authenticate(ctx, c.Client.Username, c.Client.Password)
	if err != nil {
		return errors.Is(err, rpctypes.ErrInvalidAuthToken)
	}
	return strings.HasPrefix(r.Token, "eyJ")
}

// bare is an endpoint without its scheme.
func bare(endpoint string) string {
	if _, addr, ok := strings.Cut(endpoint, "://"); ok {
		return addr
	}
	return endpoint
}

// hidden reports whether a member answered that this user may not know.
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
	for version := range versions {
		if len(f.endpoints) > 1 && revokes(version) {
			add(driver.Warning, "revoke", "", "use 3.4.31, 3.5.13, 3.6 or later",
				"etcd %s has a fault (etcd issue 15247): a leader that stood still for longer than a TTL ends leases that the next leader has renewed, "+
					"so a lock may be granted while its holder still trusts it; tokens stay in order", version)
			break
		}
	}
	if voters := slices.DeleteFunc(slices.Clone(f.members), func(m *pb.Member) bool { return m.IsLearner }); len(voters) > len(f.endpoints) {
		add(driver.Note, "member", "", "name all members in the URL", "the cluster has %d voting members, and the client knows %d: it cannot go on with the others",
			len(voters), len(f.endpoints))
	} else if len(voters) > 0 && len(voters)%2 == 0 {
		add(driver.Note, "member", "", "use an odd number of members", "%d voting members stand as few failures as %d do", len(voters), len(voters)-1)
	}
	if f.jwt {
		add(driver.Danger, "jwt", "", "use 3.5 or later, or --auth-token simple",
			"etcd before 3.5 with JWT tokens (--auth-token jwt) lets no client log in again when its token ends: every lease is lost then")
	}
	if f.alarmsErr != nil {
		add(driver.Note, "unchecked", "", "ask with a user that may, or etcdctl alarm list", "alarms could not be asked for")
	}
	return found
}

// defaultQuota is etcd's own, used where a server before 3.6 does not report its own.
const defaultQuota = 2 << 30

// judgeMember checks the status of one member.
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
			"check its network, and start the other members")
	}
	if st.IsLearner {
		add(driver.Warning, "learner", "it is a learner, which serves no locks", "promote it, or take it out of the URL")
	}
	quota, whose := st.DbSizeQuota, "its quota"
	if quota == 0 {
		quota, whose = defaultQuota, "etcd's default quota (it does not report its own)"
	}
	if st.DbSize > quota/10*8 {
		add(driver.Warning, "quota", fmt.Sprintf("its database has %d MiB, %d of them in use, and %s is %d MiB: a full member refuses writes, "+
			"so nothing is granted or given back", st.DbSize>>20, st.DbSizeInUse>>20, whose, quota>>20),
			"set --auto-compaction-retention, defragment, or raise --quota-backend-bytes")
	}
	return found
}

// revokes reports whether a leader of this version that was deposed without noticing it ends the leases that it takes for
// expired: its request is passed on to the next leader, which has renewed them. No client can prevent that.
func revokes(version string) bool {
	return !atLeast(version, 3, 4, 31) || atLeast(version, 3, 5) && !atLeast(version, 3, 5, 13)
}

// atLeast compares a version such as 3.4.23 with the first numbers of another. One that cannot be read is new enough.
func atLeast(version string, least ...int) bool {
	version, _, _ = strings.Cut(version, "-")
	parts := strings.Split(version, ".")
	for i, want := range least {
		if i == len(parts) {
			return true
		}
		if have, err := strconv.Atoi(parts[i]); err != nil || have != want {
			return err != nil || have > want
		}
	}
	return true
}
