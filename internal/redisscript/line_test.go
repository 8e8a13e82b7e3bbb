package redisscript

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/lockport/lockport/conformance/faultproxy"
	"github.com/lockport/lockport/driver"
	"github.com/lockport/lockport/internal/lab/servers"
)

var (
	reflect = NewScript("return ARGV[1]")
	count   = NewScript("return redis.call('INCR', KEYS[1])")
	list    = NewScript("return {1, 'two', false, {4}}")
	fails   = NewScript("return redis.error_reply('OOM not now')")
)

// answers collects what a line answers.
type answers struct {
	mu   sync.Mutex
	all  map[int]Reply
	more chan struct{}
}

func newAnswers() *answers {
	return &answers{all: make(map[int]Reply), more: make(chan struct{}, 100_000)}
}

func (a *answers) Answered(call int, r Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.all[call]; twice {
		panic("answered twice")
	}
	a.all[call] = r
	a.more <- struct{}{}
}

// wait waits for n answers.
func (a *answers) wait(t *testing.T, n int) map[int]Reply {
	t.Helper()
	for range n {
		select {
		case <-a.more:
		case <-time.After(10 * time.Second):
			require.Fail(t, "no answer")
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all
}

func lineTo(t *testing.T, addr string, timeout time.Duration) *Line {
	client := goredis.NewClient(&goredis.Options{Addr: addr})
	l := NewLine(client, timeout)
	t.Cleanup(func() { l.Close(); _ = client.Close() })
	return l
}

func (l *Line) ask(t *testing.T, script *Script, keys, argv []string) Reply {
	t.Helper()
	a := newAnswers()
	l.Call(script, keys, argv, Terms{}, a, 0)
	return a.wait(t, 1)[0]
}

func TestLineKeepsTheOrder(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	l := lineTo(t, s.Addr(), 5*time.Second)
	a := newAnswers()
	const calls = 5000
	underWay := 0
	for i := range calls {
		if i == calls/2 {
			_, err := s.Do(t.Context(), "SCRIPT", "FLUSH")
			require.NoError(t, err)
			a.wait(t, underWay) // only what was under way may fall behind
			underWay = 0
		}
		if underWay == maxOutstanding { // a node that takes its time gets no more
			a.wait(t, 1)
			underWay--
		}
		l.Call(count, []string{"n"}, []string{strings.Repeat("x", i%1000)}, Terms{}, a, i)
		underWay++
	}
	got := a.wait(t, underWay)
	for i := range calls / 2 {
		require.Equal(t, int64(i+1), got[i].Value, "%v", got[i].Err)
		require.NoError(t, got[i].Err)
	}
	require.Len(t, got, calls)
	require.Equal(t, []any{int64(1), "two", nil, []any{int64(4)}}, l.ask(t, list, nil, nil).Value)
	require.ErrorIs(t, l.ask(t, fails, nil, nil).Err, driver.ErrUnavailable)
	require.Equal(t, "a\r\nb", l.ask(t, reflect, nil, []string{"a\r\nb"}).Value)
}

func TestLineConnectsAgain(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	proxy, err := faultproxy.New(s.Addr())
	require.NoError(t, err)
	defer func() { _ = proxy.Close() }()
	l := lineTo(t, proxy.Addr(), 5*time.Second)
	a := newAnswers()
	first := l.Call(reflect, nil, []string{"x"}, Terms{}, a, 1)
	require.NoError(t, a.wait(t, 1)[1].Err)
	require.Equal(t, first, l.Call(reflect, nil, []string{"x"}, Terms{Generation: first}, a, 2))
	require.NoError(t, a.wait(t, 1)[2].Err)

	dropped := proxy.DropReply(count.Names)
	require.ErrorIs(t, l.ask(t, count, []string{"n"}, nil).Err, driver.ErrUnknown, "it was carried out, and nobody knows")
	<-dropped
	l.Call(count, []string{"n"}, nil, Terms{Generation: first}, a, 3)
	require.Equal(t, ErrOtherConnection, a.wait(t, 1)[3].Err)
	require.Equal(t, int64(2), l.ask(t, count, []string{"n"}, nil).Value)

	require.NoError(t, s.Kill())
	var r Reply
	require.Eventually(t, func() bool {
		r = l.ask(t, count, []string{"n"}, nil)
		return r.Err != nil
	}, 5*time.Second, time.Millisecond)
	require.Contains(t, r.Err.Error(), proxy.Addr(), "which server")
	require.NoError(t, s.Restart(t.Context()))
	require.Eventually(t, func() bool { return l.ask(t, count, []string{"n"}, nil).Err == nil }, 5*time.Second, 10*time.Millisecond)
}

// A server that says nothing is given up; nobody waits for it, and calls do not pile up.
func TestLineGivesASilentServerUp(t *testing.T) {
	s := servers.NeedRedis(t, servers.RedisOptions{})
	l := lineTo(t, s.Addr(), 300*time.Millisecond)
	require.NoError(t, l.ask(t, reflect, nil, []string{"x"}).Err)
	require.NoError(t, s.Freeze())
	a := newAnswers()
	const calls = 5000
	for i := range calls {
		l.Call(reflect, nil, []string{strings.Repeat("x", 1000)}, Terms{}, a, i)
		if i == maxOutstanding {
			<-time.After(2 * busyAfter)
		}
	}
	l.Call(reflect, nil, nil, Terms{Patience: time.Millisecond}, a, calls)
	refused := 0
	for i, r := range a.wait(t, calls+1) {
		if r.Err == nil {
			t.Fatalf("call %d was answered", i)
		}
		if isUnavailable(r.Err) {
			refused++
		}
	}
	require.GreaterOrEqual(t, refused, calls-maxOutstanding-1, "all but the bounded number were refused at once")
	require.ErrorIs(t, l.ask(t, reflect, nil, nil).Err, driver.ErrUnavailable, "it is known to be away")
	require.NoError(t, s.Thaw())
	require.Eventually(t, func() bool { return l.ask(t, reflect, nil, []string{"x"}).Err == nil }, 5*time.Second, 10*time.Millisecond)
}

func isUnavailable(err error) bool {
	return strings.HasPrefix(err.Error(), driver.ErrUnavailable.Error())
}

func TestLineClosed(t *testing.T) {
	l := lineTo(t, "127.0.0.1:1", time.Second)
	require.ErrorIs(t, l.ask(t, reflect, nil, nil).Err, driver.ErrUnavailable)
	l.Close()
	l.Close()
	require.ErrorIs(t, l.ask(t, reflect, nil, nil).Err, goredis.ErrClosed)
}

func TestLineRefusesAnotherProtocol(t *testing.T) {
	for _, text := range []string{"HTTP/1.1 200 OK\r\n", "\r\n", ":x\r\n", "$-2\r\n", "$99999999999\r\n", ":1\n", "*2\r\n:1\r\nx\r\n"} {
		_, err := readReply(bufio.NewReader(strings.NewReader(text)))
		require.Error(t, err, text)
	}
}

// Whatever a server sends, reading it ends, and what is read as a number is one.
func FuzzReadReply(f *testing.F) {
	for _, s := range []string{":1\r\n", "$-1\r\n", "*2\r\n$1\r\na\r\n-ERR x\r\n", "+OK\r\n", "*-1\r\n", "$3\r\na\r\nb\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		v, err := readReply(bufio.NewReader(bytes.NewReader(text)))
		if n, ok := v.(int64); ok && err == nil {
			line, _, _ := strings.Cut(string(text), "\r\n")
			want, err := strconv.ParseInt(line[1:], 10, 64)
			require.NoError(t, err)
			require.Equal(t, want, n)
		}
	})
}

// A server that is being connected to for longer than the timeout, by a dialer that knows no context, as that of TLS, is known to be away:
// further calls fail at once.
func TestLineDoesNotWaitForALongDial(t *testing.T) {
	dialed, giveUp := make(chan struct{}), make(chan struct{})
	client := goredis.NewClient(&goredis.Options{Addr: "127.0.0.1:1", Dialer: func(context.Context, string, string) (net.Conn, error) {
		close(dialed)
		<-giveUp
		return nil, errors.New("gave up")
	}})
	l := NewLine(client, 100*time.Millisecond)
	t.Cleanup(func() { close(giveUp); l.Close(); _ = client.Close() })
	require.ErrorIs(t, l.ask(t, reflect, nil, nil).Err, driver.ErrUnavailable, "after the timeout")
	<-dialed
	a := newAnswers()
	require.Zero(t, l.Call(reflect, nil, nil, Terms{}, a, 0))
	require.Len(t, a.all, 1, "at once")
	require.ErrorIs(t, a.all[0].Err, driver.ErrUnavailable)
}

// A line that has rested for longer than its timeout gives a silent server up as before.
func TestLineGivesUpAfterARest(t *testing.T) {
	proxy, err := faultproxy.New(servers.SharedRedis(t).Addr())
	require.NoError(t, err)
	defer func() { _ = proxy.Close() }()
	l := lineTo(t, proxy.Addr(), time.Second)
	require.NoError(t, l.ask(t, reflect, nil, []string{"a"}).Err)
	require.Eventually(t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return !l.watched
	}, 5*time.Second, time.Millisecond)
	proxy.Freeze()
	require.ErrorIs(t, l.ask(t, reflect, nil, []string{"b"}).Err, driver.ErrUnknown)
}

// What was to be written on a connection that could not be made is not written on the next.
func TestLineForgetsWhatItDidNotSend(t *testing.T) {
	s, o := servers.SharedRedis(t), optionsOf(t, servers.SharedRedis(t).URL())
	dial, dialed := goredis.NewDialer(o), 0
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialed++; dialed == 1 {
			return nil, errors.New("not now")
		}
		return dial(ctx, network, addr)
	}
	client := goredis.NewClient(o)
	defer func() { _ = client.Close() }()
	l := NewLine(client, 5*time.Second)
	defer l.Close()
	key := []string{t.Name()}
	require.ErrorIs(t, l.ask(t, count, key, nil).Err, driver.ErrUnavailable)
	var r Reply
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if r = l.ask(t, count, key, nil); r.Err == nil {
			break
		}
	}
	require.Equal(t, Reply{Value: int64(1)}, r)
	_, err := s.Do(t.Context(), "DEL", key[0])
	require.NoError(t, err)
}

// An error on a connection that was given up does not end the next one.
func TestLineIsBrokenOnce(t *testing.T) {
	l := lineTo(t, servers.SharedRedis(t).Addr(), 5*time.Second)
	require.NoError(t, l.ask(t, reflect, nil, []string{"a"}).Err)
	conn := l.conn
	old, _ := net.Pipe()
	l.mu.Lock()
	l.broken(&lineConn{Conn: old, client: goredis.NewClient(&goredis.Options{})}, io.EOF)
	l.mu.Unlock()
	require.Same(t, conn, l.conn)
	require.Equal(t, "b", l.ask(t, reflect, nil, []string{"b"}).Value)
}
