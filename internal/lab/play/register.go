package play

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"

	"github.com/lockport/lockport"
	"github.com/lockport/lockport/fence"
)

// register is what the locks protect: a server that has two numbers for each name. One is behind a fence. The other, the bare one, takes what it
// is given, so that a history shows what a fence is worth. Holders read both and write both plus one: an update that was accepted and is not in the
// number was lost. Safe for concurrent use; a client that is slow, stopped or killed keeps no other waiting.
type register struct {
	url    string
	server http.Server
	fence  fence.Memory

	mu           sync.Mutex
	fenced, bare map[string]number
}

// number is a value and how often it was written.
type number struct{ value, accepted int64 }

// registerValues are the two numbers of a name.
type registerValues struct{ Fenced, Bare int64 }

// registerRequest reads the values, or writes them.
type registerRequest struct {
	registerValues
	Name  string
	Token lockport.Token
	Write bool
}

// registerReply is what the register has now. With Stale the fence refused the token.
type registerReply struct {
	registerValues
	Stale *fence.StaleError
}

// newRegister starts a register. The caller must close it; what it has can still be asked for with lost.
func newRegister() (*register, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	r := &register{url: "http://" + l.Addr().String(), fenced: make(map[string]number), bare: make(map[string]number)}
	r.server.Handler = r
	go func() { _ = r.server.Serve(l) }()
	return r, nil
}

func (r *register) close() { _ = r.server.Close() }

// lost is how many updates of name were accepted and then overwritten by a value that did not know of them: with the fence, and without.
func (r *register) lost(name string) (fenced, bare int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, b := r.fenced[name], r.bare[name]
	return f.accepted - f.value, b.accepted - b.value
}

// ServeHTTP carries out a request.
func (r *register) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	var q registerRequest
	err := json.NewDecoder(request.Body).Decode(&q)
	reply := registerReply{registerValues: q.registerValues}
	if err == nil && q.Token != 0 {
		// The fence guards the whole update: it registers no other token between this one and the write.
		err = r.fence.Do(context.Background(), q.Name, q.Token, func() error {
			r.do(r.fenced, q, &reply.Fenced)
			return nil
		})
	}
	if err != nil && !errors.As(err, &reply.Stale) {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	r.do(r.bare, q, &reply.Bare)
	_ = json.NewEncoder(w).Encode(reply)
}

// do writes the value, or reads it.
func (r *register) do(numbers map[string]number, q registerRequest, value *int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.Write {
		numbers[q.Name] = number{*value, numbers[q.Name].accepted + 1}
	}
	*value = numbers[q.Name].value
}

// registerClient is a worker's way to a register at url. Safe for concurrent use.
type registerClient struct {
	url  string
	http http.Client // its Timeout bounds each request
}

// read registers token with the fence and returns the two numbers of name. On [fence.ErrStale] a newer token was seen: then bare is right
// nevertheless. A token of 0, of a backend that has none, has no fence: fenced is 0.
func (c *registerClient) read(name string, token lockport.Token) (fenced, bare int64, err error) {
	reply, err := c.ask(registerRequest{Name: name, Token: token})
	return reply.Fenced, reply.Bare, err
}

// write writes the two numbers of name: the bare one always, the fenced one only if token is not 0 and no newer one was seen. Otherwise the error
// matches [fence.ErrStale], or is nil with a token of 0. After another error the write may have been carried out or not.
func (c *registerClient) write(name string, token lockport.Token, fenced, bare int64) error {
	_, err := c.ask(registerRequest{registerValues{fenced, bare}, name, token, true})
	return err
}

func (c *registerClient) ask(q registerRequest) (reply registerReply, err error) {
	body, err := json.Marshal(q)
	if err != nil {
		return reply, err
	}
	response, err := c.http.Post(c.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return reply, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
	case response.StatusCode != http.StatusOK:
		err = fmt.Errorf("the register failed: %s", text)
	default:
		err = json.Unmarshal(text, &reply)
	}
	if err == nil && reply.Stale != nil {
		err = reply.Stale
	}
	return reply, err
}
