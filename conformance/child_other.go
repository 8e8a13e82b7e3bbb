//go:build !unix

package conformance

import "os"

// Processes cannot be stopped here.
var stopSignal, resumeSignal os.Signal
