package servers

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// gatewayTime bounds one request.
const gatewayTime = 5 * time.Second

// etcdGateway speaks to one etcd through the JSON gateway that each has beside gRPC, every request on a connection of its own.
// There 64-bit numbers are strings, bytes are in base64, and what is zero is left out.
type etcdGateway struct {
	addr     string
	tls      *tls.Config // nil: none
	password string      // root's; empty: there are no users
}

type object = map[string]any

// etcdStatus is what a node says of itself, in touch with the others or not.
type etcdStatus struct {
	Header struct {
		Member string `json:"member_id"`
	} `json:"header"`
	Version string `json:"version"`
	Leader  string `json:"leader"` // a member; empty: it knows of none
}

// status asks this node alone, but to log in takes a majority.
func (g etcdGateway) status(ctx context.Context) (etcdStatus, error) {
	var status etcdStatus
	err := g.call(ctx, "maintenance/status", object{}, &status)
	return status, err
}

// memberNamed returns the member of that name.
func (g etcdGateway) memberNamed(ctx context.Context, name string) (string, error) {
	var list struct {
		Members []struct{ ID, Name string } `json:"members"`
	}
	if err := g.call(ctx, "cluster/member/list", object{}, &list); err != nil {
		return "", err
	}
	for _, member := range list.Members {
		if member.Name == name {
			return member.ID, nil
		}
	}
	return "", fmt.Errorf("etcd %s has no member %s: it is not ours", g.addr, name)
}

// etcdRefusal is an error that the server answered with.
type etcdRefusal struct {
	status  int // of HTTP
	message string
}

func (r *etcdRefusal) Error() string { return fmt.Sprint(r.status, " ", r.message) }

// unsettled reports that there is no leader at the moment, so that what was asked for may or may not come to be.
func (r *etcdRefusal) unsettled() bool {
	return r.status == http.StatusServiceUnavailable || r.status == http.StatusGatewayTimeout
}

// enableAuth makes the user root, and has requests without a user refused from now on. ctx, and startTime, bound it.
func (g etcdGateway) enableAuth(ctx context.Context, password string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	for _, step := range []struct {
		path    string
		request object
	}{
		{"auth/user/add", object{"name": "root", "password": password}},
		{"auth/role/add", object{"name": "root"}},
		{"auth/user/grant", object{"user": "root", "role": "root"}},
		{"auth/enable", object{}},
	} {
		err := poll(ctx, func() error {
			err := g.call(ctx, step.path, step.request, nil)
			var refusal *etcdRefusal
			switch {
			case !errors.As(err, &refusal) || refusal.unsettled():
				return err
			case strings.Contains(refusal.message, "already exists"), strings.Contains(refusal.message, "user name is empty"):
				return nil // an earlier try has come to be, if only the last step
			}
			return stopPolling{err}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// call sends one request, after logging in if there is a password, and decodes the reply, unless that is nil. A refusal is an
// error with the server's text. ctx, and gatewayTime, bound it.
func (g etcdGateway) call(ctx context.Context, path string, request object, reply any) error {
	ctx, cancel := context.WithTimeout(ctx, gatewayTime)
	defer cancel()
	var login struct{ Token string }
	var err error
	if g.password != "" {
		err = g.exchange(ctx, "auth/authenticate", "", object{"name": "root", "password": g.password}, &login)
	}
	if err == nil {
		err = g.exchange(ctx, path, login.Token, request, reply)
	}
	if err != nil {
		if ctx.Err() != nil {
			err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
		return fmt.Errorf("etcd %s: %s: %w", g.addr, path, err)
	}
	return nil
}

func (g etcdGateway) exchange(ctx context.Context, path, token string, request object, reply any) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	scheme := "http"
	if g.tls != nil {
		scheme = "https"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, scheme+"://"+g.addr+"/v3/"+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	if token != "" {
		r.Header.Set("Authorization", token)
	}
	transport := &http.Transport{TLSClientConfig: g.tls.Clone(), DisableKeepAlives: true} // and no proxy
	defer transport.CloseIdleConnections()
	answer, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		var refusal struct{ Message string }
		_ = json.NewDecoder(answer.Body).Decode(&refusal)
		return &etcdRefusal{answer.StatusCode, refusal.Message}
	}
	if reply == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(reply)
}
