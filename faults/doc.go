// Package faults shows what each backend does when machines and networks fail. Worker processes lock on real servers while faults are injected one
// after another, and their history is judged. The [Cells] of an environment state what each fault does to a lock. Tests check both directions: a
// fault stated to be safe must never be seen to fail, and one stated to be unsafe must be.
package faults
