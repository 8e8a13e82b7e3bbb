// Package report holds the observations of a comparison of lock backends, and renders them: as one HTML file that opens offline,
// pictures, JSON, and text for a terminal. It starts nothing and measures nothing.
package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Version is the version of a Report's JSON. It grows when the meaning of a field changes, or a field goes.
const Version = 4

// Report has the observations of one run. Its JSON is stable.
type Report struct {
	Version int `json:"version"`
	// Began is the start of the run, and Seconds its duration.
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Machine Machine   `json:"machine"`
	// Subjects are what was compared, in display order.
	Subjects []Subject `json:"subjects"`
	// Missing are the servers that were not installed.
	Missing []Missing `json:"missing,omitempty"`
	// Hazards are ordered by number, and Cells are the observations. A run of costs alone has none.
	Hazards []Hazard `json:"hazards,omitempty"`
	Cells   []Cell   `json:"cells,omitempty"`
	// Costs has at most one element for each subject.
	Costs []Costs `json:"costs,omitempty"`
}

// Subject is a column: a backend on servers of this machine, a user's own server, or the locks of the articles.
type Subject struct {
	// Name is short and unique: "redis", [Article], or for a user's own server the backend, with a number if there are several.
	Name string `json:"name"`
	// Title is for people: "Redis".
	Title string `json:"title"`
	// Servers names the servers with their versions: "Redis 7.0.15"; empty for none.
	Servers string `json:"servers,omitempty"`
	// URL is a user's own server, without its password.
	URL string `json:"url,omitempty"`
	// Page names its documentation: "redis" for docs/backends/redis.md; empty for none.
	Page string `json:"page,omitempty"`
}

// Article is the subject of the articles' locks, one for each hazard, all on Redis.
const Article = "article"

// Missing is a server that is not installed.
type Missing struct {
	Subject string `json:"subject"` // that needs the server
	Program string `json:"program"`
	Install string `json:"install"` // command to install it
}

// Machine is the machine of a run.
type Machine struct {
	OS       string `json:"os"`    // "linux/amd64"
	CPU      string `json:"cpu"`   // name of the processor, empty if unknown
	Cores    int    `json:"cores"` // usable processors
	Go       string `json:"go"`    // versions
	Lockport string `json:"lockport,omitempty"`
}

// ThisMachine describes the machine, as far as the system does.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), Lockport: "(devel)"}
	text, _ := os.ReadFile("/proc/cpuinfo")
	if name := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); name != nil {
		m.CPU = string(name[1])
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		m.Lockport = info.Main.Version
	}
	return m
}

// String describes the machine for people.
func (m Machine) String() string {
	parts := []string{m.OS, m.CPU, fmt.Sprintf("GOMAXPROCS=%d", m.Cores), m.Go, "lockport " + m.Lockport}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ", ")
}

// JSON writes the report. A figure that is not finite is an error.
func (r *Report) JSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	return e.Encode(r)
}

// Hazard is a row: one way in which a distributed lock goes wrong. Its texts are for people new to locks.
type Hazard struct {
	ID       string   `json:"id"`       // "H7"
	Title    string   `json:"title"`    // a few words: "The master fails before it has copied the lock"
	Happens  string   `json:"happens"`  // what happens, in two or three plain sentences
	Do       string   `json:"do"`       // what to do about it, in one or two
	Articles []string `json:"articles"` // "002": articles that teach or overlook it
}

// Cell is one hazard on one subject: what was observed, never what was expected.
type Cell struct {
	Hazard  string `json:"hazard"`
	Subject string `json:"subject"`
	// Variant distinguishes cells of one hazard and subject: "replicas=1"; empty for the usual one.
	Variant string `json:"variant,omitempty"`
	// Setup says what ran, and what was done to it: "A Redis with a replica. The link between them is cut …".
	Setup string `json:"setup"`
	// Lock describes the lock of an article and its flaw, if any; empty for lockport's.
	Lock string `json:"lock,omitempty"`
	// NotRun says why there is no Run: it cannot happen here, or a server is missing.
	NotRun string `json:"not_run,omitempty"`
	Run
}

// ID is the cell's anchor in HTML, and the name of its picture: "H7-redis", "H7-redis-replicas-1".
func (c *Cell) ID() string {
	id := anchorOf(c.Hazard) + "-" + anchorOf(c.Subject)
	if c.Variant != "" {
		id += "-" + strings.Trim(strings.ToLower(anchorOf(c.Variant)), "-")
	}
	return id
}

// Run is one play of a cell. All times are in milliseconds since its beginning.
type Run struct {
	Class Class `json:"class,omitempty"`
	// Observed says in one to three sentences, with figures, what happened.
	Observed string `json:"observed,omitempty"`
	// LateWrite is the outcome of an older holder's write after a newer one had the lock: "refused", "landed", or empty if there was none.
	LateWrite string  `json:"late_write,omitempty"`
	Took      float64 `json:"took,omitempty"`
	// Lanes are the clients, each a process, ordered by start.
	Lanes []Lane `json:"lanes,omitempty"`
	// Faults are when the fault lasted, drawn across all lanes.
	Faults []Band `json:"faults,omitempty"`
	// Marks are remarks at an instant: "the master is killed".
	Marks []Mark `json:"marks,omitempty"`
	// Overlaps are when two believed they held the lock.
	Overlaps []Overlap `json:"overlaps,omitempty"`
}

// Lane is what one client did.
type Lane struct {
	Client string `json:"client"` // "A"
	Spans  []Span `json:"spans,omitempty"`
	// Stopped: its process was stopped (SIGSTOP). Cut: its network was cut or silent. Killed: when it was killed, 0 if it was not.
	Stopped []Band  `json:"stopped,omitempty"`
	Cut     []Band  `json:"cut,omitempty"`
	Killed  float64 `json:"killed,omitempty"`
	// Writes are its writes to the protected resource.
	Writes []Write `json:"writes,omitempty"`
}

// Span is an acquisition: requested at Asked and, if Held, believed from Got to Until.
type Span struct {
	Asked float64 `json:"asked"`
	// Held says that the lock was acquired. Otherwise the attempt ended at Until.
	Held  bool    `json:"held"`
	Got   float64 `json:"got,omitempty"`
	Until float64 `json:"until"`
	// Token is the fencing token, empty for none. It is text because many JSON readers know integers only up to 2^53.
	Token string `json:"token,omitempty"`
	// Ending says for people how it ended: "released", "told that it was lost", "the deadline passed", "killed".
	Ending string `json:"ending,omitempty"`
}

// Band is a period.
type Band struct {
	From float64 `json:"from"`
	To   float64 `json:"to"`
	What string  `json:"what,omitempty"`
}

// Mark is an instant.
type Mark struct {
	At   float64 `json:"at"`
	What string  `json:"what"`
}

// Overlap is a period in which two believed they held the lock.
type Overlap struct {
	From   float64   `json:"from"`
	To     float64   `json:"to"`
	Older  string    `json:"older"` // clients
	Newer  string    `json:"newer"`
	Tokens [2]string `json:"tokens"` // of the two; "0" for none
}

// Write is an attempt to write to the protected resource.
type Write struct {
	At      float64 `json:"at"`
	Refused bool    `json:"refused"` // by the fence
	// Late says that a newer holder came before the write.
	Late bool `json:"late,omitempty"`
}

// Class is what was seen of a hazard, or is stated of a fault.
type Class string

// The classes, from the best to the worst. looks explains them.
const (
	Safe        Class = "safe"
	Unavailable Class = "unavailable"
	Costly      Class = "hammers the server"
	Misled      Class = "wrong answer" // such as a released lock that was not released
	Stuck       Class = "locked for ever"
	Fenced      Class = "unsafe but fenced"
	Unsafe      Class = "unsafe"
)

// look is how a class is shown: with an icon and a word, so that nobody depends on its color.
type look struct {
	Class Class
	// Key names its icon and colors. Short is a word for narrow tables.
	Key, Short string
	Means      string // explains it
}

var looks = []look{
	{Safe, "safe", "safe", "No two clients believed they held the lock at once, and it became free in time."},
	{Unavailable, "unavailable", "away", "As safe, but nobody could get the lock while the fault lasted."},
	{lateLanded, "safe", "*", "As its class says, but an older holder's write landed after a newer one had the lock."},
	{Costly, "costly", "busy", "Nothing was lost, but waiting clients keep the server busy."},
	{Misled, "misled", "wrong", "A caller got a wrong answer."},
	{Stuck, "stuck", "stuck", "Nobody could get the lock any more, long after it should have ended."},
	{Fenced, "fenced", "fenced", "Two clients believed they held the lock; tokens told them apart, and the late write was refused."},
	{Unsafe, "unsafe", "UNSAFE", "Two clients believed they held the lock, and the late write was not refused."},
}

// lateLanded is shown beside a class that does not imply it.
const lateLanded Class = "late write landed"

// Classes returns all classes, from best to worst.
func Classes() (all []Class) {
	for _, l := range looks {
		if l.Class != lateLanded {
			all = append(all, l.Class)
		}
	}
	return all
}

// lookOf returns the look of c. An unknown class is shown by its name.
func lookOf(c Class) look {
	if i := slices.IndexFunc(looks, func(l look) bool { return l.Class == c }); i >= 0 {
		return looks[i]
	}
	return look{c, "unavailable", string(c), ""}
}

// Compare orders classes from best to worst. The empty class is the best.
func Compare(a, b Class) int { return slices.Index(Classes(), a) - slices.Index(Classes(), b) }

// Worse returns the worse of two classes.
func Worse(a, b Class) Class { return slices.MaxFunc([]Class{a, b}, Compare) }

// IsSafe says that there was no harm. A lock that is unavailable while the server is away is no harm.
func (c Class) IsSafe() bool { return Compare(c, Unavailable) <= 0 }
