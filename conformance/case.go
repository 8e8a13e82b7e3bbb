package conformance

import (
	"context"
	"reflect"
	"slices"
	"time"
)

// Case is one rule of the contract and how it is tried.
type Case struct {
	// Group is what the rule is about: "exclusion".
	Group string
	// Name tells the case from others of its group.
	Name string
	// Rule is the rule, in words, with the number of the promise.
	Rule string
	// Quick cases take well below a second and are those that go test -short runs.
	Quick bool
	// Needs is what Config must offer, or else the case is not run: fields of Faults by their names, "Direct" for Config.Direct, and "processes"
	// for WorkerMain and locks that another process can reach.
	Needs []string
	// Alone says that no other case may run at the same time, because it loads the server or counts what it does. Cases that
	// restart the server or count its requests are always alone.
	Alone bool
	// Limit is how long the case may take in all. Default: 20 s, and 20 TTLs more.
	Limit time.Duration
	// Run tries the rule. It fails by returning an error that says what was seen, or through the methods of Env, which
	// end it as testing.T.FailNow ends a test.
	Run func(ctx context.Context, e *Env) error
}

// ID is the group and the name: "exclusion/two-clients".
func (c Case) ID() string { return c.Group + "/" + c.Name }

// group gives cases their group.
func group(name string, cases ...Case) []Case {
	for i := range cases {
		cases[i].Group = name
	}
	return cases
}

// full is a case that takes its time. It fails through the methods of Env.
func full(name, rule string, run func(*Env), needs ...string) Case {
	return Case{Name: name, Rule: rule, Needs: needs, Run: func(_ context.Context, e *Env) error { run(e); return nil }}
}

// quick is a quick case.
func quick(name, rule string, run func(*Env)) Case {
	c := full(name, rule, run)
	c.Quick = true
	return c
}

func (c Case) alone() Case                     { c.Alone = true; return c }
func (c Case) within(limit time.Duration) Case { c.Limit = limit; return c }

// exclusive reports whether c must run alone, whatever faults there are.
func (c Case) exclusive() bool {
	return c.Alone || slices.Contains(c.Needs, "Restart") || slices.Contains(c.Needs, "Requests")
}

// faulty reports whether c produces a fault or counts connections, so that it needs a target that no other case uses meanwhile.
func (c Case) faulty() bool {
	return slices.ContainsFunc(c.Needs, func(need string) bool { return need != "Direct" && need != "processes" && need != "Leftovers" })
}

// missing says why a need of a case is not met, or nothing.
func missing(cfg Config, need string) string {
	switch {
	case need == "Direct" && cfg.Direct == "":
		return "needs Config.Direct, a target past the faults"
	case need == "processes" && cfg.Local:
		return "other processes cannot reach these locks"
	case need == "processes" && !workerMainCalled.Load():
		return "needs other processes: call conformance.WorkerMain first in TestMain or main"
	case need == "Direct" || need == "processes":
		return ""
	}
	// What ends a fault is part of it.
	fields := []string{need}
	switch need {
	case "Sever", "Freeze", "Delay", "DropReply", "CutAfter":
		fields = append(fields, "Restore")
	case "Overwrite":
		fields = append(fields, "Remove")
	}
	for _, field := range fields {
		if reflect.ValueOf(cfg.Faults).FieldByName(field).IsNil() {
			return "needs Faults." + need
		}
	}
	return ""
}

// Cases returns the table, group by group. The caller owns the slice.
func Cases() []Case {
	return slices.Concat(capabilitiesCases, contractCases, exclusionCases, fencingCases, silenceCases, removalCases, lossCases, ownershipCases,
		crashCases, cancellationCases, unknownCases, givingUpCases, waitingCases, livenessCases, costCases, namesCases, errorsCases,
		reentryCases, optionsCases, closeCases, optionalCases, sharedCases, permitCases, detachCases, severalCases)
}
