package stage

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"

	_ "github.com/go-sql-driver/mysql"

	"github.com/lockport/lockport/internal/lab/servers"
)

// redisCommands counts what servers have carried out, scripts and what they call, but for the questions themselves.
func redisCommands(all []*servers.Redis) func(ctx context.Context) (int64, error) {
	return func(ctx context.Context) (commands int64, err error) {
		for _, s := range all {
			stats, err := s.Info(ctx, "commandstats")
			if err != nil {
				return 0, err
			}
			for command, of := range stats {
				if command == "cmdstat_info" {
					continue
				}
				var n int64
				if _, err := fmt.Sscanf(of, "calls=%d,", &n); err != nil {
					return 0, fmt.Errorf("INFO commandstats says %s:%s", command, of)
				}
				commands += n
			}
		}
		return commands, nil
	}
}

func redisMemory(all []*servers.Redis) func(ctx context.Context) (int64, error) {
	return func(ctx context.Context) (memory int64, err error) {
		for _, s := range all {
			uses, err := s.Info(ctx, "memory")
			if err != nil {
				return 0, err
			}
			n, err := strconv.ParseInt(uses["used_memory"], 10, 64)
			if err != nil {
				return 0, err
			}
			memory += n
		}
		return memory, nil
	}
}

// etcdMessages counts the messages of all calls and streams that the server has received: a request each.
func etcdMessages(addr string) func(ctx context.Context) (int64, error) {
	return func(ctx context.Context) (sum int64, err error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
		if err != nil {
			return 0, err
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return 0, err
		}
		defer func() { _ = answer.Body.Close() }()
		lines := bufio.NewScanner(answer.Body)
		for lines.Scan() {
			if name, value, ok := strings.Cut(lines.Text(), "} "); ok && strings.HasPrefix(name, "grpc_server_msg_received_total{") {
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return 0, fmt.Errorf("etcd's metrics say %q", lines.Text())
				}
				sum += int64(n)
			}
		}
		return sum, lines.Err()
	}
}

// zooKeeperPackets counts what the server has received, but for the questions themselves. A server with much to do may not answer one of them in time.
func zooKeeperPackets(s *servers.ZooKeeper) func(ctx context.Context) (int64, error) {
	var asked atomic.Int64
	return func(ctx context.Context) (received int64, err error) {
		for range 5 {
			own := asked.Add(1)
			var answer string
			if answer, err = s.FourLetter(ctx, "srvr"); err != nil {
				continue
			}
			for line := range strings.Lines(answer) {
				if n, ok := strings.CutPrefix(line, "Received: "); ok {
					received, err = strconv.ParseInt(strings.TrimSpace(n), 10, 64)
					return received - own, err
				}
			}
			return 0, fmt.Errorf("srvr says nothing of packets: %q", answer)
		}
		return 0, err
	}
}

// mariaDBQuestions counts the statements that clients have sent, but for the questions themselves.
func mariaDBQuestions(rawURL string) (count func(ctx context.Context) (int64, error), end func() error, err error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, nil, err
	}
	password, _ := u.User.Password()
	db, err := sql.Open("mysql", u.User.Username()+":"+password+"@tcp("+u.Host+")"+u.Path)
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	var asked atomic.Int64
	return func(ctx context.Context) (int64, error) {
		own := asked.Add(1)
		var name string
		var sum int64
		err := db.QueryRowContext(ctx, "SHOW GLOBAL STATUS LIKE 'Questions'").Scan(&name, &sum)
		return sum - own, err
	}, db.Close, nil
}
