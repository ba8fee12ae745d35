// SPDX-License-Identifier: Apache-2.0

package lease

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fencelock/fencelock/driver"
	"github.com/fencelock/fencelock/internal/must"
	"github.com/fencelock/fencelock/store/etcdstore/internal/etcdtest"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// codesOf are the findings in short.
func codesOf(found []driver.Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, f.Severity.String()+" "+f.Code)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func TestJudge(t *testing.T) {
	well := func() *pb.StatusResponse { return &pb.StatusResponse{Version: "3.6.1", Leader: 1, DbSize: 1 << 20} }
	for name, tt := range map[string]struct {
		change func(f *facts, st *pb.StatusResponse)
		want   string
	}{
		"well":      {func(*facts, *pb.StatusResponse) {}, ""},
		"old":       {func(_ *facts, st *pb.StatusResponse) { st.Version = "3.3.27" }, "danger version"},
		"mixed":     {func(f *facts, _ *pb.StatusResponse) { f.add(&pb.StatusResponse{Version: "3.5.13", Leader: 1}, nil) }, "note version"},
		"revokes":   {func(f *facts, _ *pb.StatusResponse) { f.add(&pb.StatusResponse{Version: "3.5.12", Leader: 1}, nil) }, "note version, warning revoke"},
		"alone":     {func(_ *facts, st *pb.StatusResponse) { st.Version = "3.4.23" }, ""},
		"no leader": {func(_ *facts, st *pb.StatusResponse) { st.Leader = 0 }, "danger leader"},
		"learner":   {func(_ *facts, st *pb.StatusResponse) { st.IsLearner = true }, "warning learner"},
		"filling":   {func(_ *facts, st *pb.StatusResponse) { st.DbSize = 1800 << 20 }, "warning quota"},
		"own quota": {func(_ *facts, st *pb.StatusResponse) { st.DbSize, st.DbSizeQuota = 1800<<20, 8<<30 }, ""},
		"full":      {func(f *facts, _ *pb.StatusResponse) { f.alarms = []*pb.AlarmMember{{Alarm: pb.AlarmType_NOSPACE}} }, "danger alarm"},
		"corrupt":   {func(f *facts, _ *pb.StatusResponse) { f.alarms = []*pb.AlarmMember{{Alarm: pb.AlarmType_CORRUPT}} }, "danger alarm"},
		"down":      {func(f *facts, _ *pb.StatusResponse) { f.add(nil, errors.New("gone")) }, "warning unreachable"},
		"hidden":    {func(f *facts, _ *pb.StatusResponse) { f.add(nil, status.Error(codes.PermissionDenied, "no")) }, "note unchecked"},
		"alarms":    {func(f *facts, _ *pb.StatusResponse) { f.alarmsErr = errors.New("no") }, "note unchecked"},
		"unnamed":   {func(f *facts, _ *pb.StatusResponse) { f.members = []*pb.Member{{}, {}, {}} }, "note member"},
		"jwt":       {func(f *facts, _ *pb.StatusResponse) { f.jwt = true }, "danger jwt"},
		"a learner": {func(f *facts, _ *pb.StatusResponse) { f.members = []*pb.Member{{}, {IsLearner: true}} }, ""},
	} {
		var f facts
		st := well()
		f.add(st, nil)
		tt.change(&f, st)
		found := judge(f)
		if got := codesOf(found); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
		for _, x := range found {
			if x.Reason == "" || x.Fix == "" || !strings.Contains(x.String(), x.Code) {
				t.Errorf("%s: %v", name, x)
			}
		}
	}
}

// TestRevokes: these versions end leases that the next leader has renewed, and those after them do not.
func TestRevokes(t *testing.T) {
	for version, want := range map[string]bool{"3.4.23": true, "3.4.30": true, "3.4.31": false, "3.5.0": true, "3.5.12": true, "3.5.13": false,
		"3.5.13-rc.0": false, "3.6.0": false, "4.0.0": false, "unknown": false} {
		if got := revokes(version); got != want {
			t.Errorf("%s: got %v", version, got)
		}
	}
}

func (f *facts) add(st *pb.StatusResponse, err error) {
	f.endpoints, f.statuses, f.errs = append(f.endpoints, "host:2379"), append(f.statuses, st), append(f.errs, err)
}

// TestCheck: of a cluster that is well nothing is said; a member that is down and an
// alarm are.
func TestCheck(t *testing.T) {
	cluster := etcdtest.Start(t, 3)
	client := cluster.Connect(t)
	s, err := New("etcdstore", client, Options{})
	must.OK(t, err)
	want := func(want string) {
		t.Helper()
		found, err := s.Check(t.Context())
		if got := codesOf(found); err != nil || got != want {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	revoke := ""
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	version, err := cluster.Members[0].Version(ctx)
	must.OK(t, err)
	if revokes(version) {
		revoke = "warning revoke"
	}
	want(revoke)
	leader, err := cluster.Leader(ctx)
	must.OK(t, err)
	for _, m := range cluster.Members {
		if m != leader {
			m.Kill()
			break
		}
	}
	want(strings.Trim(revoke+", warning unreachable", ", "))
	alarm := pb.NewMaintenanceClient(client.ActiveConnection())
	if _, err := alarm.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE}); err != nil {
		t.Fatal(err)
	}
	want(strings.ReplaceAll("danger alarm, "+revoke+", warning unreachable", ", , ", ", "))
	cluster.Kill()
	if found, err := s.Check(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("no server is there: %v, %v", found, err)
	}
}
