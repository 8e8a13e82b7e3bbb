//go:build !linux

package history

import "time"

// sinceBoot is the time of day, which all processes of the machine share. Setting the clock spoils a history here.
func sinceBoot() time.Duration { return time.Duration(time.Now().UnixNano()) }
