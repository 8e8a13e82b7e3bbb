// Package conformance proves, or refutes, what a backend of lockport promises. It is a table of cases, each of which holds
// one rule of the contract (the promises P1 to P11 of the guarantees, and the statements of driver.Capabilities) against a
// real server, and says in words which rule was broken.
//
// The package names no backend. Whoever writes a driver runs it with a few lines:
//
//	func TestMain(m *testing.M) {
//		conformance.WorkerMain(open) // turns this binary into another process where a case needs one
//		os.Exit(m.Run())
//	}
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, conformance.Config{Open: open, Target: "localhost:1234"})
//	}
//
//	func open(ctx context.Context, target string) (driver.Backend, error) { … }
//
// That runs every case which needs no fault. A case whose fault is absent is reported as not run, with the reason, and
// never as passed; Config.Faults adds them one by one.
//
// What a pass does not prove: the absence of rare interleavings (the cases repeat what they can, within their time), and
// anything that happens to the server itself, such as fail-over, unless Faults produces it.
package conformance
