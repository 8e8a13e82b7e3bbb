//go:build !linux

package history

import "time"

// sinceBoot is the time of day, which all processes of the machine share: here a clock that is set spoils a history.
func sinceBoot() time.Duration { return time.Duration(time.Now().UnixNano()) }
