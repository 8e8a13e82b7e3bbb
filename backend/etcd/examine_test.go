package etcd

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/examine"
	"github.com/lockport/lockport/internal/lab/servers"
)

const usualTTL = 15 * time.Second

// examiner is a backend of a URL.
func examiner(t *testing.T, rawURL string) driver.Examiner {
	t.Helper()
	b, _, err := lockport.DefaultMux().OpenBackend(rawURL)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b.(driver.Examiner)
}

func examined(t *testing.T, rawURL string, ttl time.Duration) driver.Examination {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	found, err := examiner(t, rawURL).Examine(ctx, ttl)
	require.NoError(t, err)
	return found
}

// idsOf are the notices, "?" behind those that are unknown.
func idsOf(t *testing.T, notices []driver.Notice) (ids []string) {
	t.Helper()
	for _, n := range notices {
		require.NotEmpty(t, n.Text)
		require.NotEmpty(t, n.Remedy)
		require.NotContains(t, n.Text+n.Remedy, "secret")
		id := n.ID
		if n.Unknown {
			id += "?"
		}
		ids = append(ids, id)
	}
	return ids
}

func plainClient(t *testing.T, addr string) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(*newConfig([]string{addr}))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestExamineAHealthyServer(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{Current: true, TLS: true})
	base, _, _ := strings.Cut(s.URL(), "?")
	found := examined(t, base+"?ca="+url.QueryEscape(s.CAFile()), time.Second)
	require.Equal(t, []string{"election-timeout"}, idsOf(t, found.Notices))
	found = examined(t, base+"?ca="+url.QueryEscape(s.CAFile()), usualTTL)
	require.Empty(t, found.Notices)
	require.Equal(t, usualTTL, found.TTL)
	require.Regexp(t, `^etcd [0-9]+\.[0-9]+\.[0-9]+$`, found.Server)
}

func TestExamineLeavesNothing(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{Current: true})
	c := plainClient(t, s.Addr())
	before, err := c.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Empty(t, examined(t, s.URL(), usualTTL).Notices)
	after, err := c.Get(t.Context(), "x")
	require.NoError(t, err)
	require.Equal(t, before.Header.Revision, after.Header.Revision)
	leases, err := c.Leases(t.Context())
	require.NoError(t, err)
	require.Empty(t, leases.Leases)
}

func TestExamineTTL(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{Current: true, Tick: 200 * time.Millisecond}) // at least 3 s
	for ttl, want := range map[time.Duration][]string{time.Second: {"ttl-minimum"}, 5 * time.Second: {"election-timeout"}, 6 * time.Second: nil} {
		found := examined(t, s.URL(), ttl)
		require.Equal(t, want, idsOf(t, found.Notices), ttl)
		require.Equal(t, max(ttl, 3*time.Second), found.TTL)
	}
}

func TestExamineAlarm(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{Current: true})
	c := plainClient(t, s.Addr())
	status, err := c.Status(t.Context(), s.Addr())
	require.NoError(t, err)
	_, err = pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, MemberID: status.Header.MemberId, Alarm: pb.AlarmType_NOSPACE,
	})
	require.NoError(t, err)
	found := examined(t, s.URL(), usualTTL)
	require.Equal(t, []string{"alarm"}, idsOf(t, found.Notices))
	require.Contains(t, found.Notices[0].Text, "(NOSPACE)")
}

func TestExamineDatabaseSize(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{Current: true, Flags: []string{"--quota-backend-bytes=16777216"}})
	require.Empty(t, idsOf(t, examined(t, s.URL(), usualTTL).Notices))
	c := plainClient(t, s.Addr())
	for range 16 {
		_, err := c.Put(t.Context(), "much", strings.Repeat("x", 1<<20))
		require.NoError(t, err, "it is full, and nothing was said before")
		time.Sleep(150 * time.Millisecond) // what is written is counted a tenth of a second later
		if found := examined(t, s.URL(), usualTTL); len(found.Notices) > 0 {
			require.Equal(t, []string{"database-size"}, idsOf(t, found.Notices))
			return
		}
	}
	t.Error("more was written than there is room for")
}

func TestExamineACluster(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcdCluster(t, servers.EtcdOptions{Current: true})
	require.Empty(t, examined(t, s.URL(), usualTTL).Notices)
	require.NoError(t, s.Nodes[1].Kill())
	require.Eventually(t, func() bool { // while there is no leader, it is no answer at all
		found, err := examiner(t, s.URL()).Examine(t.Context(), usualTTL)
		return err == nil && len(found.Notices) == 1 && found.Notices[0].ID == "endpoints-away" &&
			strings.Contains(found.Notices[0].Text, "Of 3 endpoints 1 do not answer ("+s.Nodes[1].Addr()+")")
	}, 30*time.Second, 100*time.Millisecond)
}

func TestExamineAnOldServer(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	version, err := s.Version(t.Context())
	require.NoError(t, err)
	var want []string
	for _, n := range examine.Defects("", "etcd", version, defects) {
		want = append(want, n.ID)
	}
	found := examined(t, s.URL(), usualTTL)
	require.Equal(t, want, idsOf(t, found.Notices))
	require.Equal(t, "etcd "+version, found.Server)
}

func TestDefects(t *testing.T) {
	for version, want := range map[string]int{
		"3.4.20": 5, "3.4.21": 4, "3.4.23": 3, "3.4.30": 3, "3.4.31": 1, "3.4.32": 0,
		"3.5.0": 6, "3.5.3": 5, "3.5.5": 5, "3.5.6": 3, "3.5.13": 1, "3.5.14": 0, "3.6.0": 0, "3.7.3": 0,
	} {
		count := 0
		for _, n := range examine.Defects("", "etcd", version, defects) {
			count = strings.Count(n.Text, "https://")
		}
		require.Equal(t, want, count, version)
	}
}

// A user without any right sees all of this.
func TestExamineAsARestrictedUser(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]servers.EtcdOptions{"installed": {}, "current": {Current: true}} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			o.RootPassword = "root-secret"
			s := servers.NeedEtcd(t, o)
			config := newConfig([]string{s.Addr()})
			config.Username, config.Password = "root", "root-secret"
			root, err := clientv3.New(*config)
			require.NoError(t, err)
			t.Cleanup(func() { _ = root.Close() })
			_, err = root.UserAdd(t.Context(), "may", "user-secret")
			require.NoError(t, err)
			restricted := examined(t, strings.Replace(s.URL(), "root:root-secret", "may:user-secret", 1), usualTTL)
			require.Equal(t, examined(t, s.URL(), usualTTL), restricted)
			require.NotContains(t, idsOf(t, restricted.Notices), "alarm?")
		})
	}
}

func TestJudgeMembers(t *testing.T) {
	status := func(learner bool, size, quota int64) *clientv3.StatusResponse {
		return &clientv3.StatusResponse{Version: "3.7.3", IsLearner: learner, DbSize: size, DbSizeQuota: quota}
	}
	for want, members := range map[string][]member{
		"":                             {{"a:1", status(false, 79, 100)}, {"b:1", status(false, 0, 0)}},
		"learner":                      {{"a:1", status(true, 0, 0)}, {"b:1", status(true, 0, 0)}},
		"database-size":                {{"a:1", status(false, usualQuota, 0)}},
		"database-size,endpoints-away": {{"a:1", status(false, 81, 100)}, {"b:1", nil}},
		"learner,database-size":        {{"a:1", status(true, 81, 100)}},
	} {
		require.Equal(t, want, strings.Join(idsOf(t, judgeMembers(members)), ","))
	}
	require.Empty(t, judgeMembers([]member{{"a:1", nil}}), "then Check says more")
}

func TestPasswordInTheClear(t *testing.T) {
	for rawURL, want := range map[string]bool{
		"etcd://u:secret@etcd.example.com": true, "etcd://etcd.example.com": false, "etcds://u:secret@etcd.example.com": false,
	} {
		require.Equal(t, want, examiner(t, rawURL).(*Backend).link.clear, rawURL)
	}
}

func TestExamineIsBounded(t *testing.T) {
	t.Parallel()
	s := servers.NeedEtcd(t, servers.EtcdOptions{})
	b := examiner(t, s.URL())
	_, err := b.Examine(t.Context(), usualTTL)
	require.NoError(t, err)
	require.NoError(t, s.Freeze())
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err = b.Examine(ctx, usualTTL)
	require.ErrorIs(t, err, driver.ErrUnavailable)
	require.NoError(t, s.Kill())
	ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err = b.Examine(ctx, usualTTL)
	says(t, err, driver.ErrUnavailable)
}
