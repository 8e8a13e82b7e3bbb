package conformance

import (
	"reflect"
	"slices"
	"time"
)

// Case is one rule of the contract, and the test of it.
type Case struct {
	// Group is the subject of the rule: "exclusion".
	Group string
	// Name identifies the case within its group.
	Name string
	// Rule is the rule in words, with the number of its promise.
	Rule string
	// Quick cases take well below a second. go test -short runs only these.
	Quick bool
	// Needs is what Config must offer for the case to run: fields of Faults by name, "Direct" for Config.Direct, and
	// "processes" for WorkerMain and locks that other processes can reach.
	Needs []string
	// Alone says that no other case may run at the same time, because this one loads the server or counts what it does.
	// Cases that restart the server or count its requests always run alone.
	Alone bool
	// Limit is how long the case may take in all. Default: 20 s plus 20 TTLs.
	Limit time.Duration

	run func(*Env) // tests the rule
}

// ID returns the group and the name: "exclusion/two-backends".
func (c Case) ID() string { return c.Group + "/" + c.Name }

// group gives cases their group.
func group(name string, cases ...Case) []Case {
	for i := range cases {
		cases[i].Group = name
	}
	return cases
}

// full makes a case that is not quick.
func full(name, rule string, run func(*Env), needs ...string) Case {
	return Case{Name: name, Rule: rule, Needs: needs, run: run}
}

// quick makes a quick case.
func quick(name, rule string, run func(*Env)) Case {
	return Case{Name: name, Rule: rule, Quick: true, run: run}
}

func (c Case) alone() Case                     { c.Alone = true; return c }
func (c Case) within(limit time.Duration) Case { c.Limit = limit; return c }

// exclusive reports whether c must run alone, even with lanes.
func (c Case) exclusive() bool {
	return c.Alone || slices.Contains(c.Needs, "Restart") || slices.Contains(c.Needs, "Requests")
}

// faulty reports whether c produces a fault or counts connections. No other case may use its target meanwhile.
func (c Case) faulty() bool {
	return slices.ContainsFunc(c.Needs, func(need string) bool { return need != "Direct" && need != "processes" })
}

// missing says why cfg does not meet a need; "" if it does.
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
	// A fault needs the function that ends it, too.
	fields := []string{need}
	switch need {
	case "Sever", "Freeze", "Delay", "DropReply", "CutAfter":
		fields = append(fields, "Restore")
	case "Overwrite":
		fields = append(fields, "Remove")
	}
	for _, field := range fields {
		if reflect.ValueOf(cfg.Faults).FieldByName(field).IsNil() {
			return "needs Faults." + field
		}
	}
	return ""
}

// Cases returns all cases, group by group. The caller owns the slice.
func Cases() []Case {
	return slices.Concat(capabilitiesCases, contractCases, exclusionCases, fencingCases, silenceCases, removalCases, lossCases, ownershipCases,
		crashCases, cancellationCases, unknownCases, givingUpCases, waitingCases, livenessCases, costCases, namesCases, errorsCases,
		reentryCases, closeCases, optionalCases, sharedCases, permitCases, detachCases)
}
