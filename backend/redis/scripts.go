package redis

import (
	"embed"
	"strings"

	"github.com/lockport/lockport/internal/redisscript"
)

//go:embed lua/*.lua
var lua embed.FS

// The scripts. What a file relies on stands before it, and the easy case before what only the others need.
var (
	acquireScript = script("token", "easy", "queue", "claim", "acquire")
	releaseScript = script("release", "queue", "wake")
	requeueScript = script("token", "queue", "claim", "requeue")
	abandonScript = script("queue", "abandon")
	renewScript   = script("renew")
	waitingScript = script("waiting")
	inspectScript = script("queue", "inspect")
	breakScript   = script("queue", "break")
	checkScript   = script("check")
)

// script puts files together.
func script(files ...string) *redisscript.Script {
	var source strings.Builder
	for _, f := range files {
		text, err := lua.ReadFile("lua/" + f + ".lua")
		if err != nil {
			panic(err) // embedded
		}
		source.Write(text)
	}
	return redisscript.NewScript(source.String())
}
