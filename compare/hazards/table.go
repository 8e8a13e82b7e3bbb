package hazards

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"strings"
	"time"

	"github.com/lockport/lockport/faults"
	"github.com/lockport/lockport/internal/lab/environment"
	"github.com/lockport/lockport/internal/lab/play"
	"github.com/lockport/lockport/internal/lab/report"
)

// The file has, for each hazard, its explanation and its rows: see row. To add a hazard, add it there, and its script below.
//
//go:embed hazards.json
var texts []byte

// Hazards are fifteen ways in which a distributed lock goes wrong, ordered by number, with explanations for people new to locks. The caller owns the
// result.
func Hazards() (all []report.Hazard) {
	for _, h := range read() {
		all = append(all, h.Hazard)
	}
	return all
}

// hazard is a hazard of the file.
type hazard struct {
	report.Hazard
	Rows []row
}

func read() (all []hazard) {
	in := json.NewDecoder(bytes.NewReader(texts))
	in.DisallowUnknownFields()
	if err := in.Decode(&all); err != nil {
		panic(err) // the file is embedded
	}
	return all
}

// row plays a hazard on all subjects.
type row struct {
	scenario            // without a Subject: what its cells have in common
	Instead  []scenario // cells that differ. Empty fields come from the row
}

// scenario is one hazard on one subject: the servers, and what is done to them and to the clients.
type scenario struct {
	report.Cell        // before the play, NotRun says that it cannot happen here, and the fields below are empty
	Environment string // name of the servers' environment, if not the first one of the backend
	Exhibit     string // the lock of conformance/exhibits/articles that replaces lockport's, on one Redis if Environment is empty
	Harmful     bool   // it harms the servers, so it plays there alone
	TTLSeconds  int    `json:"ttl_seconds"` // overrides the environment's TTL. 30: servers are replaced before a holder renews, even on a busy machine
	Script      string // name in scripts of what is played
	Fault       string // instead of Script: the fault of package faults, in the same environment, whose script is played

	// act plays it. The history shows what clients believed, wrote and were refused. The script adds other observations with found.
	act play.Act
	err error // of plays that broke off
}

// scripts are what scenarios play. Scripts that replace or restart servers belong to harmful scenarios.
var scripts = map[string]play.Act{
	"holder-killed":                  holderKilled,
	"holder-killed-while-others-try": holderKilledWhileOthersTry,
	"killed-after-each-request":      claimantsKilled(afterRequest),
	"killed-while-asking":            claimantsKilled(whileAsking),

	"works-long":                        worksLong,
	"asks-twice":                        asksTwice,
	"stopped-before-it-writes":          stoppedBeforeItWrites,
	"stopped-before-it-releases":        stoppedBeforeItReleases,
	"first-request-of-release-held-up":  releaseHeldUp(1),
	"second-request-of-release-held-up": releaseHeldUp(2),
	"lock-removed":                      tampered(faults.Remove),
	"key-deleted":                       tampered(articleDeleted),

	"answers-300-ms-late": slowAnswers("A's network is slow: 300 ms each way", delayed(300*time.Millisecond)),
	// A claim on ZooKeeper takes four requests in a row.
	"answers-100-ms-late": slowAnswers("A's network is slow: 100 ms each way", delayed(100*time.Millisecond)),
	"two-of-five-silent":  slowAnswers("two of the five servers do not answer A", lastTwoSilent),
	"last-answer-missing": lastAnswer,
	"waiters-counted":     waitersCounted,
	"away-silently":       away(silently),
	"away-openly":         away(openly),
	"folder-away":         away(folderAway),

	"one-of-five-killed":          watched(killed("one of the five")),
	"leader-killed":               watched(killed("the leader")),
	"follower-loses-its-disk":     watched(diskLost),
	"replicated-master-killed":    watched(replicated),
	"server-killed-and-restarted": watched(crashed),
}

// columns returns the subjects, in their order, and the usual environment of each.
func columns() (subjects []string, usual map[string]string) {
	subjects, usual = []string{report.Article}, map[string]string{report.Article: "redis"}
	for _, e := range environment.All() {
		if usual[e.Backend] == "" {
			subjects, usual[e.Backend] = append(subjects, e.Backend), e.Name
		}
	}
	return subjects, usual
}

// table returns all scenarios, ordered by hazard and subject.
func table() (all []scenario) {
	subjects, usual := columns()
	for _, h := range read() {
		for _, subject := range subjects {
			for _, r := range h.Rows {
				r.Hazard = h.ID
				all = append(all, r.on(subject, usual[subject])...)
			}
		}
	}
	return all
}

// on returns the cells of a subject, whose usual environment is usual.
func (r *row) on(subject, usual string) (cells []scenario) {
	for _, c := range r.Instead {
		if c.Subject == subject {
			cells = append(cells, c)
		}
	}
	if len(cells) == 0 {
		cells = []scenario{{Cell: report.Cell{Subject: subject}}}
	}
	for i := range cells {
		cells[i].complete(&r.scenario, usual)
	}
	return cells
}

// complete fills empty fields of a cell from its row. A setup begins with the servers.
func (s *scenario) complete(row *scenario, usual string) {
	s.Hazard, s.Variant = row.Hazard, cmp.Or(s.Variant, row.Variant)
	if s.NotRun != "" {
		return
	}
	s.Environment = cmp.Or(s.Environment, usual)
	s.Harmful = s.Harmful || row.Harmful
	s.TTLSeconds = cmp.Or(s.TTLSeconds, row.TTLSeconds)
	if s.Exhibit != "" {
		s.Lock = article(s.Exhibit).Is
	}
	if s.Setup == "" {
		at, _ := environment.Named(s.Environment) // a test checks the names
		s.Setup = strings.ToUpper(at.Title[:1]) + at.Title[1:] + ". " + row.Setup
	}
	if s.act = scripts[cmp.Or(s.Script, row.Script)]; s.Fault != "" {
		s.act = of(s.Environment, s.Fault)
	}
}
