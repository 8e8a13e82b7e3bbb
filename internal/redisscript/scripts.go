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
	Acquire = compose("token", "easy", "queue", "claim", "acquire").lasting().beside(acquireBeside).
		together(compose("shadow", "token", "one", "easy", "queue", "claim", "acquire", "each"))
	Renew   = compose("renew").lasting().beside(renewBeside).together(compose("shadow", "one", "renew", "each")) // the key is the lock alone
	Release = compose("release", "queue", "wake").beside(releaseBeside).together(compose("shadow", "one", "release", "queue", "wake", "each"))
	Abandon = compose("queue", "abandon").beside(compose("queue", "beside", "beside_abandon"))
	Again   = compose("token", "queue", "claim", "again").lasting()
	Requeue = compose("token", "queue", "claim", "requeue").lasting()
	Attach  = compose("queue", "attach").lasting()
)

// Those of readers and of claims for permits. Their keys are those of the scripts that grant, and the set of holders.
var (
	acquireBeside = compose("token", "queue", "beside", "beside_acquire").lasting().
			together(compose("shadow", "token", "one", "queue", "beside", "beside_acquire", "each"))
	renewBeside = compose("queue", "beside", "beside_renew").lasting().
			together(compose("shadow", "one", "queue", "beside", "beside_renew", "each"))
	releaseBeside = compose("queue", "beside", "beside_release").together(compose("shadow", "one", "queue", "beside", "beside_release", "each"))
	InspectBeside = compose("queue", "beside", "beside_inspect")
	Contend       = compose("queue", "beside", "beside_contend")
)

// The scripts for one server of several, of which a majority decides: their keys are the lock and the queue.
var (
	QuorumAcquire = compose("clock", "easy", "queue", "claim", "quorum_acquire")
	QuorumRelease = compose("quorum_release", "queue", "quorum_wake")
	QuorumRenew   = compose("quorum_renew")
	QuorumRetake  = compose("queue", "quorum_retake")
)

// The scripts for both.
var (
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
