package nats

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lockport/lockport/driver"
)

// CreateBucket creates the bucket for locks, with 1 replica, or 3 or 5 in a cluster. If a suitable bucket exists, it does nothing. The first
// revision is the time in microseconds, so that tokens keep rising if a bucket is created anew after a loss of its data.
func CreateBucket(ctx context.Context, js jetstream.JetStream, o Options, replicas int) error {
	b, err := NewBackend(js, o)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: b.stream(), Subjects: []string{b.subject(">")}, Description: "locks of lockport", Replicas: replicas,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, FirstSeq: uint64(time.Now().UnixMicro()),
		AllowMsgTTL: true, SubjectDeleteMarkerTTL: abandonedMarker, AllowRollup: true, DenyDelete: true,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		_, err = b.verify(ctx, js)
	}
	return err
}

// endsClaims reports whether a server of this version ends claims that nobody renews. Earlier ones do not while the bucket is busy:
// nats-server's change 7344. A version of another form is taken for a newer one.
func endsClaims(version string) bool {
	var major, minor, patch int
	_, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch)
	fixedIn := map[int]int{11: 10, 12: 1}[minor]
	return err != nil || major > 2 || minor > 10 && patch >= fixedIn
}

// verify checks that the bucket, and the server that the client is connected to, are suitable for locks.
func (b *Backend) verify(ctx context.Context, js jetstream.JetStream) (*jetstream.StreamInfo, error) {
	if version := js.Conn().ConnectedServerVersion(); !endsClaims(version) {
		return nil, fmt.Errorf("%w: on NATS %s, a dead holder's lock can stay taken for ever: use 2.11.10, 2.12.1 or newer", driver.ErrRefused, version)
	}
	stream, err := js.Stream(ctx, b.stream())
	if err != nil {
		return nil, fmt.Errorf("cannot read the bucket %s: does it exist (nats.CreateBucket makes it), and has the user rights to it? %w", b.bucket, err)
	}
	info := stream.CachedInfo()
	c := info.Config
	if !c.AllowMsgTTL || c.SubjectDeleteMarkerTTL <= 0 || c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || c.Mirror != nil || len(c.Sources) > 0 ||
		c.SubjectTransform != nil || c.Retention != jetstream.LimitsPolicy || c.NoAck || c.Storage != jetstream.FileStorage ||
		c.PersistMode != jetstream.DefaultPersistMode || c.Discard != jetstream.DiscardNew || c.DiscardNewPerSubject || info.State.LastSeq >= driver.MaxToken {
		return nil, fmt.Errorf("%w: the bucket %s is not suitable for locks: it must have a TTL for each key with delete markers (NATS 2.11), a history of 1, file "+
			"storage that is written at once, retention by limits, discard new (not per subject), acknowledgements, revisions below 2^53, and no TTL, mirror, "+
			"source or subject transform of its own. Make one with nats.CreateBucket", driver.ErrRefused, b.bucket)
	}
	return info, nil
}

// A bucket is a stream, and a key is one of its subjects.
func (b *Backend) stream() string            { return "KV_" + b.bucket }
func (b *Backend) subject(key string) string { return "$KV." + b.bucket + "." + key }

// keyOf encodes a name as a key: letters, digits, "_", "-" and "/" stay, every other byte becomes "=" and two hexadecimal digits.
func keyOf(name string) string { return toKey.Replace(url.QueryEscape(name)) }

var toKey = strings.NewReplacer("%2F", "/", "%", "=", ".", "=2E", "~", "=7E", "+", "=20")

// nameOf reverses keyOf. For a foreign key, keyOf of the result differs from the key.
func nameOf(key string) (string, error) { return url.QueryUnescape(strings.ReplaceAll(key, "=", "%")) }

// valueOf is the value of a claim: its owner and its TTL in seconds. A renewal adds the token, which is the revision of the grant.
func valueOf(owner string, ttl time.Duration, token uint64) string {
	return strings.TrimSuffix(fmt.Sprintf("%s %d %d", owner, ttl/time.Second, token), " 0")
}

// statusOf reads a claim's value, which was written at a time by the server's clock.
func statusOf(name, value string, revision uint64, at time.Time) driver.Status {
	st := driver.Status{Name: name, Held: true, Waiters: -1}
	var ttl time.Duration
	n, _ := fmt.Sscanf(value, "%s %d %d", &st.Owner, &ttl, &st.Token)
	ttl *= time.Second
	switch {
	case n < 2 || ttl <= 0 || driver.OwnerClient(st.Owner) == "" || valueOf(st.Owner, ttl, st.Token) != value:
		st.Owner, st.Token, st.Foreign = value[:min(len(value), driver.MaxOwnerLength)], 0, true
		return st
	case n == 2:
		st.Token, st.Since = revision, at
	}
	st.Expires = at.Add(ttl)
	return st
}

// read returns the status of a name, and the revision of its key; 0: there is no key.
func (b *Backend) read(ctx context.Context, name string) (st driver.Status, revision uint64, err error) {
	st = driver.Status{Name: name, Waiters: -1}
	err = b.request(ctx, false, func(ctx context.Context, js jetstream.JetStream) error {
		older, _ := js.Conn().JetStream() // only this API asks the stream's leader; the newer one asks any replica, which may lag
		m, err := older.GetLastMsg(b.stream(), b.subject(keyOf(name)), natsgo.Context(ctx))
		switch {
		case errors.Is(err, natsgo.ErrMsgNotFound):
			return nil
		case err != nil:
			return err
		case m.Header.Get("KV-Operation")+m.Header.Get(jetstream.MarkerReasonHeader) == "":
			st = statusOf(name, string(m.Data), m.Sequence, m.Time)
		}
		revision = m.Sequence
		return nil
	})
	if err == nil && !st.Held {
		b.free.put(name, revision)
	}
	return st, revision, err
}

// lostAfter is how long a write waits for its answer, in all tries. A leader that ends may lose it. The client sends it again.
const lostAfter = 2500 * time.Millisecond

// replace replaces revision last of a name's key with value, for ttl. An empty value is a marker: the name is free. It returns the new
// revision, and the validity, which counts from before the write. If the key has another revision, next gets the current state. It returns the
// revision to replace instead, or an error. This repeats while others are faster, and while no server leads the bucket.
func (b *Backend) replace(ctx context.Context, name, value string, ttl time.Duration, last uint64, next func(now driver.Status, revision uint64) (uint64, error)) (written driver.Grant, err error) {
	// No message ID: by that, the server would acknowledge a repetition of a grant that has ended.
	m := &natsgo.Msg{Subject: b.subject(keyOf(name)), Data: []byte(value), Header: natsgo.Header{}}
	if value == "" { // when any other marker expires, the server writes one more
		m.Header.Set("KV-Operation", "PURGE")
	}
	ctx, cancel := context.WithTimeout(ctx, lostAfter)
	defer cancel()
	for {
		written.Until = time.Now().Add(ttl)
		err = b.request(ctx, true, func(ctx context.Context, js jetstream.JetStream) error {
			ack, err := js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithMsgTTL(ttl), jetstream.WithRetryAttempts(0))
			if err == nil {
				written.Token = ack.Sequence
			}
			return err
		})
		if err == nil && value == "" {
			b.free.put(name, written.Token)
		}
		if errors.Is(err, jetstream.ErrNoStreamResponse) && ctx.Err() == nil { // no effect
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err != errMoved {
			return written, err
		}
		now, revision, err := b.read(ctx, name)
		if err == nil {
			last, err = next(now, revision)
		}
		if err != nil {
			return written, err
		}
	}
}

// errLags: the answering server shows a state from before a known write.
var errLags = fmt.Errorf("%w: the answering server lags behind another", driver.ErrUnavailable)

// lags reports whether the stream's leader has not seen revision known, or does not say.
func (b *Backend) lags(ctx context.Context, known uint64) bool {
	state, err := b.state(ctx)
	return err != nil || state.LastSeq < known
}

// state asks the stream's leader for its state.
func (b *Backend) state(ctx context.Context, opts ...jetstream.StreamInfoOpt) (state jetstream.StreamState, err error) {
	err = b.request(ctx, false, func(ctx context.Context, js jetstream.JetStream) error {
		stream, err := js.Stream(ctx, b.stream())
		if err != nil {
			return err
		}
		info, err := stream.Info(ctx, opts...)
		if err == nil {
			state = info.State
		}
		return err
	})
	return state, err
}
