package play

import (
	"context"
	"errors"
	"net"
	"net/rpc"
	"sync"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// register is the resource that the locks protect: a server with one number for each name, behind a fence. Holders read the number and write it plus
// one. Safe for concurrent use: a slow, stopped or killed client blocks no other.
type register struct {
	net.Listener
	fence fence.Memory

	mu       sync.Mutex
	numbers  map[string]int64
	accepted int64 // updates
}

// Update reads the number of a name, or writes it. A token of 0, from a backend without tokens, passes without a fence.
type Update struct {
	Name  string
	Token lockport.Token
	Write bool
	Value int64
}

// Number is the answer to an Update. Stale says that the fence refused the token.
type Number struct {
	Value int64
	Stale *fence.StaleError
}

// newRegister starts a register. The caller must Close it; lost still works then.
func newRegister() (*register, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &register{Listener: l, numbers: make(map[string]int64)}
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

// lost counts the accepted updates that later writes overwrote unseen.
func (r *register) lost() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n = r.accepted
	for _, value := range r.numbers {
		n -= value
	}
	return n
}

// Do carries out an update, as package rpc calls it.
func (r *register) Do(u Update, answer *Number) error {
	do := func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		if u.Write {
			r.numbers[u.Name] = u.Value
			r.accepted++
		}
		answer.Value = r.numbers[u.Name]
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

// ask reads or writes. [fence.ErrStale]: a newer token was seen. After any other error, the write may have happened or not.
func (u Update) ask(register *rpc.Client) (int64, error) {
	var answer Number
	err := register.Call("register.Do", u, &answer)
	if err == nil && answer.Stale != nil {
		err = answer.Stale
	}
	return answer.Value, err
}
