package redisscript

import (
	"embed"
	"strings"
)

//go:embed lua/*.lua
var lua embed.FS

// The scripts for a server whose word alone counts: their keys are the lock and the queue and, of those that grant, the
// last tokens. What a file relies on stands before it, and
// the easy case before what only the others need.
var (
	Acquire = compose("token", "easy", "queue", "claim", "acquire").
		together(compose("shadow", "token", "one", "easy", "queue", "claim", "acquire", "each"))
	Release = compose("release", "queue", "wake").together(compose("shadow", "one", "release", "queue", "wake", "each"))
	Again   = compose("token", "queue", "claim", "again")
	Requeue = compose("token", "queue", "claim", "requeue")
	Renew   = compose("renew", "renewed")
	Attach  = compose("queue", "attach")
)

// The scripts of readers and of those that have permits, for a server whose word alone counts: their keys are those of the scripts that grant, and the
// set of holders.
var (
	AcquireBeside = compose("token", "queue", "beside", "beside_acquire").
			together(compose("shadow", "token", "one", "queue", "beside", "beside_acquire", "each"))
	RenewBeside   = compose("queue", "beside", "beside_renew").together(compose("shadow", "one", "queue", "beside", "beside_renew", "each"))
	ReleaseBeside = compose("queue", "beside", "beside_release").together(compose("shadow", "one", "queue", "beside", "beside_release", "each"))
	AbandonBeside = compose("queue", "beside", "beside_abandon")
	InspectBeside = compose("queue", "beside", "beside_inspect")
	Contend       = compose("queue", "beside", "beside_contend")
)

// The scripts for one server of several, of which a majority decides: their keys are the lock and the queue.
var (
	QuorumAcquire = compose("clock", "easy", "queue", "claim", "quorum_acquire")
	QuorumRelease = compose("quorum_release", "queue", "quorum_wake")
	QuorumRenew   = compose("renew", "quorum_renewed")
	QuorumRetake  = compose("queue", "quorum_retake")
)

// The scripts for both.
var (
	Abandon = compose("queue", "abandon")
	Waiting = compose("waiting")
	Inspect = compose("queue", "inspect")
	Break   = compose("queue", "break")
	Check   = compose("check")
)

// compose puts files together.
func compose(files ...string) *Script {
	var source strings.Builder
	for _, f := range files {
		text, err := lua.ReadFile("lua/" + f + ".lua")
		if err != nil {
			panic(err) // embedded
		}
		source.Write(text)
	}
	return NewScript(source.String())
}
