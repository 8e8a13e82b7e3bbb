package lib

import (
	"context"
	"errors"

	goredis "github.com/redis/go-redis/v9"
)

func init() {
	register(Library{
		Name: "the same, pipelined", Family: "redis", Kind: Floor, Module: "github.com/redis/go-redis/v9", Only: []string{"own-"},
		How: "SET NX PX, and EVALSHA of a compare-and-delete, of all goroutines in one pipeline after the other", Renewal: Never,
		Open: func(ctx context.Context, c Config) (Locker, error) {
			clients, err := goRedis(c.URL)
			if err != nil {
				return nil, err
			}
			p := &pipelined{Config: c, Client: clients[0], todo: make(chan *piped, 2*poolSize)}
			go p.send()
			return p, compareAndDelete.Load(ctx, clients[0]).Err()
		},
	})
}

// pipelined sends what goroutines ask for while a pipeline is under way as the next one.
type pipelined struct {
	Config
	*goredis.Client
	todo chan *piped
}

type piped struct {
	cmd  goredis.Cmder
	done chan struct{}
}

// send ends with the process: there is nobody who closes todo while others send.
func (p *pipelined) send() {
	for first := range p.todo {
		pipe, calls := p.Pipeline(), []*piped{first}
		for more := true; more; {
			select {
			case next := <-p.todo:
				calls = append(calls, next)
			default:
				more = false
			}
		}
		for _, c := range calls {
			_ = pipe.Process(context.Background(), c.cmd)
		}
		_, _ = pipe.Exec(context.Background()) // each command has its own error
		for _, c := range calls {
			close(c.done)
		}
	}
}

func (p *pipelined) do(cmd goredis.Cmder) error {
	c := &piped{cmd, make(chan struct{})}
	p.todo <- c
	<-c.done
	return cmd.Err()
}

// Acquire does not wait.
func (p *pipelined) Acquire(ctx context.Context, name string) (Hold, error) { return p.Try(ctx, name) }

func (p *pipelined) Try(ctx context.Context, name string) (Hold, error) {
	err := p.do(goredis.NewStatusCmd(ctx, "set", name, bareValue, "nx", "px", p.TTL.Milliseconds()))
	if errors.Is(err, goredis.Nil) {
		return nil, ErrHeld
	}
	if err != nil {
		return nil, err
	}
	return pipedKey{p, name}, nil
}

type pipedKey struct {
	*pipelined
	name string
}

func (k pipedKey) Release(ctx context.Context) error {
	cmd := goredis.NewCmd(ctx, "evalsha", compareAndDelete.Hash(), "1", k.name, bareValue)
	if err := k.do(cmd); err != nil {
		return err
	}
	if n, err := cmd.Int(); err != nil || n != 1 {
		return errors.Join(err, errors.New("it was not held"))
	}
	return nil
}
