// Package conformance tests whether a lockport backend keeps its promises. It is a table of cases. Each case tries one rule
// on a real server: a promise P1 to P11 of the guarantees, or a statement of driver.Capabilities. A failure explains the rule
// that was broken.
//
// The package names no backend. To test your own driver, write a few lines:
//
//	func TestMain(m *testing.M) {
//		conformance.WorkerMain(open) // some cases start this binary again as another process
//		os.Exit(m.Run())
//	}
//
//	func TestConformance(t *testing.T) {
//		conformance.Test(t, conformance.Config{Open: open, Target: "localhost:1234"})
//	}
//
//	func open(ctx context.Context, target string) (driver.Backend, error) { … }
//
// That runs every case that needs no fault. Supply faults one by one in Config.Faults. A case whose fault is missing is
// reported as not run, with the reason, never as passed.
//
// A pass does not prove that rare interleavings are safe: the cases repeat what they can in their time. Nor does it cover
// events in the server itself, such as fail-over, unless Faults produces them.
package conformance
