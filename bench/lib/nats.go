package lib

import (
	"context"
	"errors"
	"sync"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/backend/nats"
	"github.com/lockport/lockport/conformance/library"
	"github.com/lockport/lockport/internal/lab/measure"
	"github.com/lockport/lockport/internal/lab/servers"
	"github.com/lockport/lockport/referee/libraries"
)

// startNATS starts a server and creates the bucket of the locks.
func startNATS(ctx context.Context) (*measure.Servers, error) {
	s, err := servers.StartNATS(ctx, 1)
	if err != nil {
		return nil, err
	}
	all := &measure.Servers{URL: "nats://" + s.Addrs()[0], Close: s.Close}
	js, end, err := openJetStream(all.URL)
	if err == nil {
		err = errors.Join(nats.CreateBucket(ctx, js, nats.Options{}, 1), end())
	}
	if err != nil {
		return nil, errors.Join(err, all.Close())
	}
	return all, nil
}

func openJetStream(url string) (js jetstream.JetStream, end func() error, err error) {
	conn, err := natsgo.Connect(url)
	if err != nil {
		return nil, nil, err
	}
	js, err = jetstream.New(conn)
	return js, func() error { conn.Close(); return nil }, err
}

// openBareNATS opens the floor. It remembers the revision of its last marker of each name, so the next claim needs no read.
func openBareNATS(ctx context.Context, rawURL string, ttl time.Duration) (l library.Client, err error) {
	js, end, err := openJetStream(rawURL)
	if err != nil {
		return l, err
	}
	kv, err := js.KeyValue(ctx, "lockport")
	if err != nil {
		return l, errors.Join(err, end())
	}
	var markers sync.Map
	put := func(ctx context.Context, name, marker string, last uint64, ttl time.Duration) (uint64, error) {
		message := natsgo.NewMsg("$KV.lockport." + name)
		message.Header.Set("KV-Operation", marker)
		ack, err := js.PublishMsg(ctx, message, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithMsgTTL(ttl))
		if err != nil {
			return 0, err
		}
		return ack.Sequence, nil
	}
	return library.Client{Close: end, Take: func(ctx context.Context, c library.Claim) (*library.Hold, error) {
		last, _ := markers.Load(c.Name)
		marker, _ := last.(uint64)
		revision, err := put(ctx, c.Name, "", marker, ttl)
		if refusal := new(jetstream.APIError); errors.As(err, &refusal) { // another client has changed the key
			revision, err = kv.Create(ctx, c.Name, nil, jetstream.KeyTTL(ttl))
			err = libraries.HeldIf(errors.Is(err, jetstream.ErrKeyExists), err)
		}
		return held(func(ctx context.Context) error {
			marker, err := put(ctx, c.Name, "PURGE", revision, time.Minute)
			markers.Store(c.Name, marker)
			return err
		}, err)
	}}, nil
}
