package postgres

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/lockport/lockport/internal/session"
)

// reply is the statement with which a session answers who looks at locks: messages on a channel.
const (
	replyName = "lp_reply"
	replySQL  = `SELECT count(pg_notify($1, m)) FROM unnest($2::text[]) AS m`
)

// reportBytes bounds one message to the server: what is sent while nobody may be reading must find room in the socket's buffer, since the mutex is
// held. Of one question at a time one message is on its way.
const reportBytes = 8 << 10

// saying is a message for who looks at locks.
type saying struct {
	to      string // the channel
	reports []string
}

// asked answers a question: the channel for the answers, the process id of the session that is meant, and a key, or * and what the names start with.
func (c *conn) asked(question string) {
	to, rest, _ := strings.Cut(question, " ")
	pid, what, _ := strings.Cut(rest, " ")
	if pid != strconv.FormatInt(c.pid, 10) {
		return
	}
	prefix, all := strings.CutPrefix(what, "*")
	var reports []string
	add := func(r report) {
		if text, err := json.Marshal(r); err == nil {
			reports = append(reports, string(text))
		}
	}
	c.line.Lock()
	if all {
		for _, h := range c.held {
			if strings.HasPrefix(h.name, prefix) {
				add(c.report(h))
			}
		}
	} else if h, ok := c.held[session.Key(what)]; ok {
		add(c.report(h))
	}
	add(report{PID: c.pid, Last: true})
	for len(reports) > 0 {
		n, size := 1, len(reports[0])
		for n < len(reports) && size+len(reports[n]) <= reportBytes {
			size += len(reports[n])
			n++
		}
		c.unsaid = append(c.unsaid, saying{to, reports[:n]})
		reports = reports[n:]
	}
	var err error
	if !c.saying {
		err = c.reportNext()
	}
	c.line.Unlock()
	if err != nil {
		c.end(err)
	}
}

// report is what is said of a lock. For how long it has been held is true whatever the clocks of the machines show.
func (c *conn) report(h holder) report {
	return report{PID: c.pid, Name: h.name, Owner: h.owner, Token: h.token, Held: (time.Since(c.born) - h.since).Milliseconds()}
}

// reportNext sends the next message for who looks at locks, when the one before has been answered. The mutex is held.
func (c *conn) reportNext() (err error) {
	c.saying = len(c.unsaid) > 0 && c.line.Ended() == nil
	if !c.saying {
		c.unsaid = nil
		return nil
	}
	next := c.unsaid[0]
	c.unsaid = c.unsaid[1:]
	if c.buf, err = appendReply(c.buf[:0], next.to, next.reports); err == nil {
		c.steps = append(c.steps, step{as: reports})
		_, err = c.socket.Write(c.buf)
	}
	return err
}

// appendReply has the server carry out the statement reply.
func appendReply(buf []byte, to string, messages []string) ([]byte, error) {
	quoted := make([]string, len(messages))
	for i, m := range messages {
		quoted[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(m) + `"`
	}
	buf, err := (&pgproto3.Bind{PreparedStatement: replyName, Parameters: [][]byte{[]byte(to), []byte("{" + strings.Join(quoted, ",") + "}")},
		ResultFormatCodes: []int16{1}}).Encode(buf)
	if err == nil {
		buf, err = (&pgproto3.Execute{}).Encode(buf)
	}
	if err == nil {
		buf, err = (&pgproto3.Sync{}).Encode(buf)
	}
	return buf, err
}
