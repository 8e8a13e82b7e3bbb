package play

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/rpc"
	"sync"
	"time"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// register is the resource that the locks protect: a server with one number for each name, behind a fence. Holders read the number and write it plus
// one. An accepted update that is missing in the number was lost. Safe for concurrent use: a slow, stopped or killed client blocks no other.
type register struct {
	listener net.Listener
	fence    fence.Memory

	mu      sync.Mutex
	numbers map[string]number
}

// number is a value and how often it was written.
type number struct{ value, accepted int64 }

// Update reads the number of a name, or writes it. The answer has the number, or the error of a fence that refused the token. A token of 0, from a
// backend without tokens, passes without a fence.
type Update struct {
	Name  string
	Token lockport.Token
	Write bool
	Value int64
	Stale *fence.StaleError
}

// newRegister starts a register. The caller must close it; lost still works then.
func newRegister() (*register, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &register{listener: l, numbers: make(map[string]number)}
	server := rpc.NewServer()
	if err := server.RegisterName("register", r); err != nil {
		return nil, err
	}
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go server.ServeConn(conn)
		}
	}()
	return r, nil
}

func (r *register) addr() string { return r.listener.Addr().String() }

func (r *register) close() { _ = r.listener.Close() }

// lost counts the accepted updates of name that later writes overwrote unseen.
func (r *register) lost(name string) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.numbers[name].accepted - r.numbers[name].value
}

// Do carries out an update, as package rpc calls it.
func (r *register) Do(u Update, answer *Update) error {
	*answer = u
	do := func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if u.Write {
			r.numbers[u.Name] = number{u.Value, r.numbers[u.Name].accepted + 1}
		}
		answer.Value = r.numbers[u.Name].value
		return nil
	}
	if u.Token == 0 {
		return do()
	}
	err := r.fence.Do(context.Background(), u.Name, u.Token, do) // the fence registers no other token before do returns
	if errors.As(err, &answer.Stale) {
		return nil
	}
	return err
}

// askRegister reads or writes. [fence.ErrStale]: a newer token was seen. After any other error, the write may have happened or not.
func askRegister(c *rpc.Client, u Update) (Update, error) {
	var answer Update
	select {
	case call := <-c.Go("register.Do", u, &answer, make(chan *rpc.Call, 1)).Done:
		if call.Error == nil && answer.Stale != nil {
			return answer, answer.Stale
		}
		return answer, call.Error
	case <-time.After(registerTimeout):
		return Update{}, fmt.Errorf("the register does not answer: %w", context.DeadlineExceeded)
	}
}
