package play

// AttachRegister has a register serve a connection that did not come over its port.
var AttachRegister = (*Register).attach

// Crash ends the worker's process as if by itself, and returns when it has ended.
func (w *Worker) Crash() {
	w.process.Kill()
}
