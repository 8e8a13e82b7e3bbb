package sqlfence

// GuardStatement is the statement of Guard.
func GuardStatement(f *Fence) string { return f.guard }
