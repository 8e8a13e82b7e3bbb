package zookeeper

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/lockport/lockport/driver"
)

// ask makes a request when the session is attached, and returns when ctx ends.
func (l *life) ask(ctx context.Context, f frame) (*pending, error) {
	t, err := l.await(ctx)
	if err != nil {
		return nil, err
	}
	p := t.send(f)[0]
	return p, p.wait(ctx)
}

// wait waits for the reply.
func (p *pending) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return unknown(ctx.Err())
	}
}

// askLibrary makes a request by go-zookeeper, and returns when ctx ends, whatever that does.
func askLibrary[T any](ctx context.Context, l *life, request func() (T, error)) (answer T, err error) {
	if _, err := l.await(ctx); err != nil {
		return answer, err
	}
	type reply struct {
		answer T
		err    error
	}
	done := make(chan reply, 1)
	go func() {
		answer, err := request()
		done <- reply{answer, err}
	}()
	select {
	case r := <-done:
		return r.answer, r.err
	case <-ctx.Done():
		return answer, unknown(ctx.Err())
	}
}

func isTimeout(err error) bool {
	var n net.Error
	return errors.As(err, &n) && n.Timeout()
}

// node is what a server says of a node.
type node struct {
	data         string
	czxid, owner int64 // the transaction that created it, the session that owns it
}

func (l *life) list(ctx context.Context, path string) ([]string, error) {
	p, err := l.ask(ctx, listFrame(path))
	if err != nil {
		return nil, err
	}
	return p.children()
}

// children reads the reply to a list.
func (p *pending) children() ([]string, error) {
	b := p.body
	children := b.strings()
	return children, b.err()
}

func (l *life) get(ctx context.Context, path string) (n node, err error) {
	p, err := l.ask(ctx, getFrame(path))
	if err != nil {
		return n, err
	}
	b := p.body
	n.data, n.czxid = b.string(), b.long()
	b.take(3*8 + 3*4) // mzxid, ctime, mtime, version, cversion, aversion
	n.owner = b.long()
	return n, b.err()
}

func (l *life) delete(ctx context.Context, path string) error {
	_, err := l.ask(ctx, deleteFrame(path))
	return err
}

// sync makes the server that we are connected to catch up with the leader.
func (l *life) sync(ctx context.Context, path string) error {
	_, err := l.ask(ctx, syncFrame(path))
	return explain(err, "sync", path)
}

// confirm makes a quorum say that the node is there, and so that this session lives and has seen everything decided before. Unlike
// a sync, which the leader answers alone, it cannot be answered by one that was deposed and has not noticed.
func (l *life) confirm(ctx context.Context, path string) error {
	p, err := l.ask(ctx, checkFrame(path))
	if err != nil {
		return err
	}
	b := p.body
	op := b.int()
	b.take(1 + 4)
	if op == opError {
		return errorOf(b.int())
	}
	return b.err()
}

// makePath creates a node that is to have children, and those above it where they are missing.
func (b *Backend) makePath(ctx context.Context, l *life, path string) error {
	for range 3 { // a container above may be removed meanwhile
		err := b.makeNode(ctx, l, path)
		if !errors.Is(err, zk.ErrNoNode) {
			if connectionLost(err) {
				return err
			}
			return explain(err, "create", path)
		}
		above := path[:strings.LastIndexByte(path, '/')]
		if above == "" {
			return unavailable(fmt.Errorf("the root is missing: %w", err))
		}
		if err := b.makePath(ctx, l, above); err != nil {
			return err
		}
	}
	return unavailable(fmt.Errorf("what is above %s is removed again and again", path))
}

// makeNode creates a container, which the server removes some time after its last child has gone; where it has none, a persistent node.
func (b *Backend) makeNode(ctx context.Context, l *life, path string) error {
	b.mu.Lock()
	plain := b.plain
	b.mu.Unlock()
	f := createFrame(opCreateContainer, path, "", b.o.ACL, zk.FlagContainer)
	if plain {
		f = createFrame(opCreate, path, "", b.o.ACL, zk.FlagPersistent)
	}
	_, err := l.ask(ctx, f)
	switch {
	case err == nil, errors.Is(err, zk.ErrNodeExists):
		return nil
	case plain, errors.Is(err, zk.ErrNoNode), connectionLost(err), refused(err), errors.Is(err, zk.ErrSessionExpired),
		oneOf(err, driver.ErrUnavailable, driver.ErrRefused, driver.ErrUnknown):
		return err
	}
	b.mu.Lock()
	b.plain = true
	b.mu.Unlock()
	return b.makeNode(ctx, l, path)
}
