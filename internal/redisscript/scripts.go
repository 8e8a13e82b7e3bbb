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
	Acquire = compose("token", "easy", "queue", "claim", "acquire").durable().beside(acquireBeside).
		batched(compose("shadow", "token", "one", "easy", "queue", "claim", "acquire", "each"))
	Renew   = compose("renew").durable().beside(renewBeside).batched(compose("shadow", "one", "renew", "each")) // the key is the lock alone
	Release = compose("release", "queue", "wake").beside(releaseBeside).batched(compose("shadow", "one", "release", "queue", "wake", "each"))
	Abandon = compose("queue", "abandon").beside(compose("queue", "beside", "beside_abandon"))
	Again   = compose("token", "queue", "claim", "again").durable()
	Requeue = compose("token", "queue", "claim", "requeue").durable()
	Attach  = compose("queue", "attach").durable()
)

// The scripts for readers and permits. Their keys are those of the scripts that grant, and the set of holders.
var (
	acquireBeside = compose("token", "queue", "beside", "beside_acquire").durable().
			batched(compose("shadow", "token", "one", "queue", "beside", "beside_acquire", "each"))
	renewBeside = compose("queue", "beside", "beside_renew").durable().
			batched(compose("shadow", "one", "queue", "beside", "beside_renew", "each"))
	releaseBeside = compose("queue", "beside", "beside_release").batched(compose("shadow", "one", "queue", "beside", "beside_release", "each"))
	InspectBeside = compose("queue", "beside", "beside_inspect")
	Contend       = compose("queue", "beside", "beside_contend")
)

// The scripts for one server of several, where a majority decides. Their keys are the lock and the queue.
var (
	QuorumAcquire = compose("notoken", "easy", "queue", "claim", "quorum_acquire")
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

// compose concatenates files.
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
