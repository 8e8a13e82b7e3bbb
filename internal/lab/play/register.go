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

// register is what the locks protect: a server that has two numbers for each name. One is behind a fence. The other, the bare one, takes what it
// is given, so that a history shows what a fence is worth. Holders read both and write both plus one: an update that was accepted and is not in the
// number was lost. Safe for concurrent use; a client that is slow, stopped or killed keeps no other waiting.
type register struct {
	listener net.Listener
	fence    fence.Memory

	mu           sync.Mutex
	fenced, bare map[string]number
}

// number is a value and how often it was written.
type number struct{ value, accepted int64 }

// Update reads the two numbers of a name, or writes them. The answer has them, with the error of a fence that refused the token. A token of 0, of a
// backend that has none, has no fence: Fenced is 0.
type Update struct {
	Name         string
	Token        lockport.Token
	Write        bool
	Fenced, Bare int64
	Stale        *fence.StaleError
}

// newRegister starts a register. The caller must close it; what it has can still be asked for with lost.
func newRegister() (*register, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &register{listener: l, fenced: make(map[string]number), bare: make(map[string]number)}
	server := rpc.NewServer()
	if err := server.RegisterName("register", &registerService{r}); err != nil {
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

// lost is how many updates of name were accepted and then overwritten by a value that did not know of them: with the fence, and without.
func (r *register) lost(name string) (fenced, bare int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, b := r.fenced[name], r.bare[name]
	return f.accepted - f.value, b.accepted - b.value
}

// registerService is what clients call.
type registerService struct{ r *register }

// Do carries out an update.
func (s *registerService) Do(u Update, answer *Update) (err error) {
	*answer = u
	if u.Token != 0 {
		// The fence guards the whole update: it registers no other token between this one and the write.
		err = s.r.fence.Do(context.Background(), u.Name, u.Token, func() error {
			s.r.do(s.r.fenced, u, &answer.Fenced)
			return nil
		})
	}
	if err != nil && !errors.As(err, &answer.Stale) {
		return err
	}
	s.r.do(s.r.bare, u, &answer.Bare)
	return nil
}

// do writes the value, or reads it.
func (r *register) do(numbers map[string]number, u Update, value *int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.Write {
		numbers[u.Name] = number{*value, numbers[u.Name].accepted + 1}
	}
	*value = numbers[u.Name].value
}

// askRegister reads or writes. On [fence.ErrStale] a newer token was seen, and the bare number is read or written nevertheless. After another error the
// write may have been carried out or not.
func askRegister(c *rpc.Client, u Update) (Update, error) {
	var answer Update
	select {
	case call := <-c.Go("register.Do", u, &answer, make(chan *rpc.Call, 1)).Done:
		if call.Error == nil && answer.Stale != nil {
			return answer, answer.Stale
		}
		return answer, call.Error
	case <-time.After(registerTime):
		return Update{}, fmt.Errorf("the register does not answer: %w", context.DeadlineExceeded)
	}
}
