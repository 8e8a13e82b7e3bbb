package conformance

import (
	"context"
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
	// Needs is what Config must offer, or else the case is not run.
	Needs []Need
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
func full(name, rule string, run func(*Env)) Case {
	return Case{Name: name, Rule: rule, Run: func(_ context.Context, e *Env) error { run(e); return nil }}
}

// quick is a quick case.
func quick(name, rule string, run func(*Env)) Case {
	c := full(name, rule, run)
	c.Quick = true
	return c
}

func (c Case) needing(needs ...Need) Case      { c.Needs = needs; return c }
func (c Case) alone() Case                     { c.Alone = true; return c }
func (c Case) within(limit time.Duration) Case { c.Limit = limit; return c }

// exclusive reports whether c must run alone, whatever faults there are.
func (c Case) exclusive() bool {
	return c.Alone || slices.Contains(c.Needs, NeedRestart) || slices.Contains(c.Needs, NeedRequests)
}

// faulty reports whether c produces a fault or counts connections, so that it needs a target that no other case uses meanwhile.
func (c Case) faulty() bool {
	return slices.ContainsFunc(c.Needs, func(n Need) bool { return n != NeedDirect && n != NeedProcesses && n != NeedLeftovers })
}

// limit is how long c may take with such a TTL.
func (c Case) limit(ttl time.Duration) time.Duration {
	if c.Limit > 0 {
		return c.Limit
	}
	return 20*time.Second + 20*ttl
}

// Need is something that a case needs beside Config.Open: a field of Config or of Faults, or other processes.
type Need string

// What a case may need.
const (
	NeedProcesses Need = "processes" // WorkerMain, and locks that another process can reach
	NeedDirect    Need = "Direct"
	NeedSever     Need = "Sever"
	NeedCut       Need = "Cut"
	NeedFreeze    Need = "Freeze"
	NeedDelay     Need = "Delay"
	NeedDropReply Need = "DropReply"
	NeedCutAfter  Need = "CutAfter"
	NeedRemove    Need = "Remove"
	NeedOverwrite Need = "Overwrite"
	NeedRestart   Need = "Restart"
	NeedLeftovers Need = "Leftovers"
	NeedConns     Need = "Conns"
	NeedRequests  Need = "Requests"
)

// missing says why n is not there, or nothing.
func (n Need) missing(cfg Config) string {
	f := cfg.Faults
	there := map[Need]bool{
		NeedDirect:    cfg.Direct != "",
		NeedSever:     f.Sever != nil && f.Restore != nil,
		NeedCut:       f.Cut != nil,
		NeedFreeze:    f.Freeze != nil && f.Restore != nil,
		NeedDelay:     f.Delay != nil && f.Restore != nil,
		NeedDropReply: f.DropReply != nil && f.Restore != nil,
		NeedCutAfter:  f.CutAfter != nil && f.Restore != nil,
		NeedRemove:    f.Remove != nil,
		NeedOverwrite: f.Overwrite != nil && f.Remove != nil,
		NeedRestart:   f.Restart != nil,
		NeedLeftovers: f.Leftovers != nil,
		NeedConns:     f.Conns != nil,
		NeedRequests:  f.Requests != nil,
	}
	switch {
	case n == NeedProcesses && cfg.Local:
		return "other processes cannot reach these locks"
	case n == NeedProcesses && !workerMainCalled.Load():
		return "needs other processes: call conformance.WorkerMain first in TestMain or main"
	case n == NeedProcesses || there[n]:
		return ""
	case n == NeedDirect:
		return "needs Config.Direct, a target past the faults"
	}
	return "needs Faults." + string(n)
}

// Cases returns the table, group by group. The caller owns the slice.
func Cases() []Case {
	var all []Case
	for _, group := range [][]Case{
		capabilitiesCases, contractCases, exclusionCases, fencingCases, silenceCases, removalCases, lossCases, ownershipCases, crashCases,
		cancellationCases, unknownCases, givingUpCases, waitingCases, livenessCases, costCases, namesCases, errorsCases, reentryCases,
		optionsCases, closeCases, optionalCases,
	} {
		all = append(all, group...)
	}
	return all
}
