package browser

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
)

// errGone is what is left of a browser that has ended.
var errGone = errors.New("chromium has ended")

// link is the connection to a browser: messages in JSON, each ended by a zero byte, in both directions.
type link struct {
	in, out *os.File

	mu      sync.Mutex // also for writing
	last    int
	answers map[int]chan message
	// sessions are who is told of the events of a page.
	sessions map[string]func(method string, params json.RawMessage)
	gone     chan struct{}
}

type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
		Data    string `json:"data"`
	} `json:"error,omitempty"`
}

func newLink(in, out *os.File) *link {
	l := &link{in: in, out: out, answers: make(map[int]chan message), sessions: make(map[string]func(string, json.RawMessage)), gone: make(chan struct{})}
	go l.read()
	return l
}

// read hands out answers, and events in the order in which they came, until the browser is gone.
func (l *link) read() {
	defer close(l.gone)
	for r := bufio.NewReader(l.in); ; {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			return
		}
		l.mu.Lock()
		answer, event := l.answers[m.ID], l.sessions[m.Session]
		delete(l.answers, m.ID)
		l.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case m.Method != "" && event != nil:
			event(m.Method, m.Params)
		}
	}
}

// call asks for something, of the page of a session or of the browser, and decodes the answer into result, which may be nil.
func (l *link) call(ctx context.Context, session, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	encoded, err := json.Marshal(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	if err := l.send(message{Session: session, Method: method, Params: encoded}, answer); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case m := <-answer:
		if m.Error != nil {
			return fmt.Errorf("%s: %s %s", method, m.Error.Message, m.Error.Data)
		}
		if result == nil {
			return nil
		}
		return json.Unmarshal(m.Result, result)
	case <-l.gone:
		return fmt.Errorf("%s: %w", method, errGone)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, ctx.Err())
	}
}

func (l *link) send(m message, answer chan message) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	m.ID = l.last
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	l.answers[m.ID] = answer
	_, err = l.out.Write(append(text, 0))
	if errors.Is(err, io.ErrClosedPipe) || errors.Is(err, os.ErrClosed) {
		return errGone
	}
	return err
}

// listen has the events of a session told to tell, until it is nil.
func (l *link) listen(session string, tell func(method string, params json.RawMessage)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if tell == nil {
		delete(l.sessions, session)
		return
	}
	l.sessions[session] = tell
}

func (l *link) close() {
	_ = l.out.Close()
	_ = l.in.Close()
	<-l.gone
}
