package redisscript

import (
	"embed"
	"strings"
)

//go:embed lua/*.lua
var lua embed.FS

// The scripts for a single server. Their keys are the lock and the queue, and for scripts that grant, the last tokens. A file comes after
// those that it relies on. The easy case comes first, so that it does not run what only the others need.
var (
	Acquire      = Script{acks: true, Beside: acquireBeside}.ofMany("token", "easy", "queue", "claim", "acquire")
	Renew        = Script{acks: true, keys: 1, Beside: renewBeside}.ofMany("demoted", "renew") // of one key: a client renews thousands
	Release      = Script{keys: 2, Beside: releaseBeside}.ofMany("demoted", "release", "queue", "wake")
	Abandon      = Script{Beside: abandonBeside}.of("queue", "leave", "abandon")
	acquireAgain = Script{acks: true}.of("token", "queue", "claim", "again")
	Requeue      = Script{acks: true}.of("token", "queue", "claim", "requeue")
	Attach       = Script{acks: true}.of("demoted", "queue", "attach")
)

// The scripts for readers and permits. Their keys are those of the scripts that grant, and the set of holders.
var (
	acquireBeside = Script{acks: true}.ofMany("token", "queue", "beside", "beside_acquire")
	renewBeside   = Script{acks: true}.ofMany("demoted", "queue", "beside", "beside_renew")
	releaseBeside = Script{}.ofMany("demoted", "queue", "beside", "beside_release")
	abandonBeside = Script{}.of("queue", "leave", "beside", "beside_abandon")
	Contend       = Script{}.of("queue", "beside", "beside_contend")
	BreakBeside   = Script{}.of("demoted", "queue", "beside", "beside_release") // has an argument more than a release, so it must not share a batch
)

// The scripts for one server of several, where a majority decides. Their keys are the lock and the queue.
var (
	QuorumAcquire = Script{}.of("notoken", "easy", "queue", "claim", "quorum_acquire")
	QuorumRelease = Script{}.of("quorum_release", "queue", "quorum_wake")
	QuorumRenew   = Script{}.of("quorum_renew")
	QuorumRetake  = Script{}.of("queue", "quorum_retake")
)

// The scripts for both.
var (
	Inspect = Script{}.of("queue", "inspect")
	Break   = Script{}.of("demoted", "queue", "break")
	Check   = &Script{source: text("check"), sha: strings.Repeat("0", 40), acks: true} // no server knows it, so a call needs EVALSHA and EVAL
	spread  = Script{}.of("spread")
)

// of returns s with the files as its source.
func (s Script) of(files ...string) *Script { return s.from(text(files...)) }

// ofMany is like of. It also makes the variant for many locks, which share what the first file defines: token.lua or demoted.lua.
func (s Script) ofMany(shared string, files ...string) *Script {
	parts := strings.NewReplacer("--SHARED\n", text(shared), "--SCRIPT\n", text(files...))
	s.batch = Script{acks: s.acks}.from(parts.Replace(text("many")))
	return s.from(text(shared) + text(files...))
}

// text is that of the files.
func text(files ...string) (all string) {
	for _, f := range files {
		part, err := lua.ReadFile("lua/" + f + ".lua")
		if err != nil {
			panic(err) // embedded
		}
		all += string(part)
	}
	return all
}
