package report

import "time"

// Version is that of the JSON of a Report. It grows when the meaning of a field changes, or one goes.
const Version = 2

// Report is what one run observed. Its JSON is stable.
type Report struct {
	Version int `json:"version"`
	// Began is when the run did, and Seconds how long it took.
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	// Full says that every scenario was run, and oftener, not only the quick ones.
	Full    bool    `json:"full"`
	Machine Machine `json:"machine"`
	// Subjects are what was compared, in the order in which they are shown.
	Subjects []Subject `json:"subjects"`
	// Missing is what could not be run here, with what would have to be installed.
	Missing []Missing `json:"missing,omitempty"`
	// Hazards are what can go wrong, in the order of their numbers; Cells are what was seen of them. None where a run has only costs.
	Hazards []Hazard `json:"hazards,omitempty"`
	Cells   []Cell   `json:"cells,omitempty"`
	// Costs are what locks cost, for each subject at most once.
	Costs []Costs `json:"costs,omitempty"`
}

// Machine is what a run ran on.
type Machine struct {
	OS       string `json:"os"`       // "linux/amd64"
	CPU      string `json:"cpu"`      // the processor's name, empty if it is not known
	Cores    int    `json:"cores"`    // processors that may be used
	Memory   int64  `json:"memory"`   // bytes, 0 if not known
	Go       string `json:"go"`       // "go1.26.8"
	Lockport string `json:"lockport"` // its version
}

// Subject is a column: a backend on servers of this machine, a user's own server, or the locks of the articles.
type Subject struct {
	// Name is short and unique: "redis"; [Article]; of a user's own servers that of the backend, with a number if there are several.
	Name string `json:"name"`
	// Title is for people: "Redis".
	Title string `json:"title"`
	// Servers are those that ran, with their versions: "Redis 7.0.15"; empty for none.
	Servers string `json:"servers,omitempty"`
	// URL is a user's own, without its password.
	URL string `json:"url,omitempty"`
	// Page is the name of its page of documentation: "redis" for docs/backends/redis.md; empty for none.
	Page string `json:"page,omitempty"`
}

// Article is the subject of the locks that the articles teach, one for each hazard: all are on Redis.
const Article = "article"

// Missing is a server that was not found.
type Missing struct {
	Subject string `json:"subject"` // of which something could not be run
	Program string `json:"program"`
	Install string `json:"install"` // the command that installs it
}
