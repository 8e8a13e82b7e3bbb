package faults

// AttachRegister has a register serve a connection that did not come over its port.
var AttachRegister = (*Register).attach
