package report

import "time"

// Version is the version of a Report's JSON. It grows when the meaning of a field changes, or a field goes.
const Version = 3

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
