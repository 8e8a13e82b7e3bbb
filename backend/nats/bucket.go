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

// expiredMarker is for how long a bucket of CreateBucket keeps the marker of a claim that expired.
const expiredMarker = time.Hour

// CreateBucket makes the bucket of the locks, with so many replicas: 1, or 3 or 5 in a cluster. If there is one that is fit it does nothing. The first
// revision is the time in microseconds, so that tokens go on rising if a bucket is made anew after its data were lost.
func CreateBucket(ctx context.Context, js jetstream.JetStream, o Options, replicas int) error {
	b, err := NewBackend(js, o)
	if err != nil {
		return err
	}
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{
		Name: "KV_" + b.bucket, Subjects: []string{b.subject(">")}, Description: "locks of lockport", Replicas: replicas,
		Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1, FirstSeq: uint64(time.Now().UnixMicro()),
		AllowMsgTTL: true, SubjectDeleteMarkerTTL: expiredMarker, AllowRollup: true, DenyDelete: true,
	})
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		_, err = b.verify(ctx, js)
	}
	return err
}

// verify looks whether the bucket is fit for locks.
func (b *Backend) verify(ctx context.Context, js jetstream.JetStream) (*jetstream.StreamInfo, error) {
	stream, err := js.Stream(ctx, "KV_"+b.bucket)
	if err != nil {
		return nil, err
	}
	c := stream.CachedInfo().Config
	if !c.AllowMsgTTL || c.SubjectDeleteMarkerTTL <= 0 || c.MaxMsgsPerSubject != 1 || c.MaxAge != 0 || c.Mirror != nil || len(c.Sources) > 0 ||
		c.Storage != jetstream.FileStorage || c.PersistMode != jetstream.DefaultPersistMode || c.Discard != jetstream.DiscardNew {
		return nil, fmt.Errorf("%w: the bucket %s is not fit for locks: it must have a TTL for each key with delete markers (NATS 2.11), a history of 1, file "+
			"storage that is written at once, discard new, and no TTL, mirror or source of its own. Make one with nats.CreateBucket", driver.ErrRefused, b.bucket)
	}
	return stream.CachedInfo(), nil
}

// keyOf is the key of a name: letters, digits, "_", "-" and "/" stay, and every other byte is "=" and two hexadecimal digits.
func keyOf(name string) string { return toKey.Replace(url.QueryEscape(name)) }

var toKey = strings.NewReplacer("%2F", "/", "%", "=", ".", "=2E", "~", "=7E", "+", "=20")

// nameOf is the name of a key. ok: the key is that of a name.
func nameOf(key string) (name string, ok bool) {
	name, err := url.QueryUnescape(strings.ReplaceAll(key, "=", "%"))
	return name, err == nil && keyOf(name) == key
}

// record is what a key has.
type record struct {
	driver.Status
	revision uint64 // 0: there is nothing
}

// valueOf is what a claim writes: its owner and its TTL in seconds. A renewal adds the token, which is the revision of the grant.
func valueOf(owner string, ttl time.Duration, token uint64) string {
	value := fmt.Sprintf("%s %d", owner, ttl/time.Second)
	if token > 0 {
		value = fmt.Sprintf("%s %d", value, token)
	}
	return value
}

// recordOf reads a value that is no marker, and was written at a time by the server's clock.
func recordOf(name, value string, revision uint64, at time.Time) record {
	r := record{driver.Status{Name: name, Held: true, Waiters: -1}, revision}
	var ttl time.Duration
	n, _ := fmt.Sscanf(value, "%s %d %d", &r.Owner, &ttl, &r.Token)
	ttl *= time.Second
	switch {
	case n < 2 || ttl <= 0 || driver.OwnerClient(r.Owner) == "" || valueOf(r.Owner, ttl, r.Token) != value:
		r.Owner, r.Token, r.Foreign = value[:min(len(value), driver.MaxOwnerLength)], 0, true
		return r
	case n == 2:
		r.Token, r.Since = revision, at
	}
	r.Expires = at.Add(ttl)
	return r
}

// read looks at the key of a name.
func (b *Backend) read(ctx context.Context, name string) (r record, err error) {
	r.Name, r.Waiters = name, -1
	err = b.request(ctx, false, func(ctx context.Context, js jetstream.JetStream) error {
		older, err := js.Conn().JetStream() // this API alone asks the stream's leader: the newer one asks any replica, which may lag
		if err != nil {
			return err
		}
		m, err := older.GetLastMsg("KV_"+b.bucket, b.subject(keyOf(name)), natsgo.Context(ctx))
		switch {
		case errors.Is(err, natsgo.ErrMsgNotFound):
			return nil
		case err != nil:
			return err
		case m.Header.Get("KV-Operation") != "" || m.Header.Get(jetstream.MarkerReasonHeader) != "":
			r.revision = m.Sequence
		default:
			r = recordOf(name, string(m.Data), m.Sequence, m.Time)
		}
		return nil
	})
	return r, err
}

func (b *Backend) subject(key string) string { return "$KV." + b.bucket + "." + key }

// put writes a value, or without one a marker that the key is free, to the key of a name, for ttl, if its revision is last. errMoved: it was another.
// Nothing identifies the message to the server's deduplication, which would acknowledge a repetition of a grant that has ended.
func (b *Backend) put(ctx context.Context, name, value string, ttl time.Duration, last uint64) (revision uint64, err error) {
	m := &natsgo.Msg{Subject: b.subject(keyOf(name)), Data: []byte(value), Header: natsgo.Header{}}
	if value == "" { // for a marker that is no purge the server writes another when it expires
		m.Header.Set("KV-Operation", "PURGE")
	}
	err = b.request(ctx, true, func(ctx context.Context, js jetstream.JetStream) error {
		ack, err := js.PublishMsg(ctx, m, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithMsgTTL(ttl), jetstream.WithRetryAttempts(0))
		if err == nil {
			revision = ack.Sequence
		}
		return err
	})
	if err == nil && value == "" {
		b.remember(name, revision)
	}
	return revision, err
}

// attempts is how often a write that another overtook is tried on the revision that is there now.
const attempts = 3

var errRaced = fmt.Errorf("%w: others write the key at this moment", driver.ErrUnavailable)

// replace puts a value in place of the revision last. Where the key has another one, which tells by what is there now the revision to replace instead, or
// an error why none is. sent is from before the write.
func (b *Backend) replace(ctx context.Context, name, value string, ttl time.Duration, last uint64, which func(now record) (uint64, error)) (revision uint64, sent time.Time, err error) {
	for range attempts {
		sent = time.Now()
		if revision, err = b.put(ctx, name, value, ttl, last); err != errMoved {
			return revision, sent, err
		}
		now, err := b.read(ctx, name)
		if err == nil {
			last, err = which(now)
		}
		if err != nil {
			return 0, sent, err
		}
	}
	return 0, sent, errRaced
}
