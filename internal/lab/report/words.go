package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// docs is where the documentation is, whose pages a report names.
const docs = "https://github.com/lockport/lockport/blob/main/docs/"

// heading is the title of the report, by what is in it.
func (r *Report) heading() string {
	switch {
	case len(r.Cells) == 0 && len(r.Costs) > 0:
		return "Distributed locks: what they cost"
	case len(r.Cells) > 0 && len(r.Costs) == 0:
		return "Distributed locks: what goes wrong"
	}
	return "Distributed locks: what goes wrong, and what they cost"
}

// about says what this is.
func (r *Report) about() string {
	var what []string
	if len(r.Cells) > 0 {
		what = append(what, "Real clients locked on real servers while these were cut off, stopped or killed; every cell tells what was observed, never what was expected.")
	}
	if len(r.Costs) > 0 {
		what = append(what, "What locks cost was measured in the same run as a bare round trip to the same server, as a ratio to that says more of another machine than a time does.")
	}
	if len(what) == 0 {
		return "Nothing was run."
	}
	return strings.Join(what, " ")
}

// ran says when and how long.
func (r *Report) ran() string {
	return fmt.Sprintf("A %s run of %s, begun on %s.", r.mode(), seconds(r.Seconds), r.began())
}

func (r *Report) mode() string {
	if r.Full {
		return "full"
	}
	return "quick"
}

func (r *Report) began() string { return r.Began.Format("2 January 2006, 15:04 MST") }

// where says on what machines the costs were measured, which a reader must know to compare them with others.
func (r *Report) where() string {
	if slices.ContainsFunc(r.Subjects, func(s Subject) bool { return s.URL != "" }) {
		return "The clients ran on one machine, the servers where their URLs say."
	}
	return "Servers and clients ran on one machine and shared its processors: there is no network in these times."
}

// how says how all was observed, in paragraphs.
func (r *Report) how() (all []string) {
	if len(r.Cells) > 0 {
		all = append(all, "In the hazards every client was a process of its own, which noted when it asked for the lock, had it, released it, or was told that it was lost. "+
			"It believed to hold the lock from when it had it until it began to release it, was told, was killed, or its deadline had passed. Two believed at one time where these times overlap, "+
			"by a clock that all of them read.")
	}
	if len(r.Costs) > 0 {
		all = append(all, "Times were taken at the caller, by a monotonic clock. One backend was measured after the other. "+
			"Quantiles are values of real samples; a ratio is taken in each turn anew, and what is told is the median of the turns, with the least and the greatest.")
	}
	return all
}

// machine says what it ran on.
func (r *Report) machine() string {
	m := r.Machine
	parts := []string{m.OS}
	if m.CPU != "" {
		parts = append(parts, m.CPU)
	}
	if m.Cores > 0 {
		parts = append(parts, plural(m.Cores, "core", "cores"))
	}
	if m.Memory > 0 {
		parts = append(parts, memory(m.Memory))
	}
	if m.Go != "" {
		parts = append(parts, m.Go)
	}
	if m.Lockport != "" {
		parts = append(parts, "lockport "+m.Lockport)
	}
	return strings.Join(parts, ", ")
}

// subjectTable is what was compared.
func (r *Report) subjectTable() table {
	t := table{head: []string{"", "servers", "how they were set up to be measured"}}
	for _, s := range r.Subjects {
		servers := s.Servers
		if s.URL != "" {
			servers = strings.TrimSpace(servers + " " + s.URL)
		}
		if servers == "" {
			servers = "none"
		}
		setup := "–"
		for _, c := range r.Costs {
			if c.Subject == s.Name && c.Setup != "" {
				setup = c.Setup
			}
		}
		t.rows = append(t.rows, []string{capital(r.title(s.Name)), servers, setup})
	}
	return t
}

// titles are what people call the subjects.
func (r *Report) titles(names []string) (titles []string) {
	for _, name := range names {
		titles = append(titles, r.title(name))
	}
	return titles
}

// command is the one that makes such a report again.
func (r *Report) command() string {
	words := []string{"lockport compare"}
	if r.Full {
		words = append(words, "--full")
	}
	for _, s := range r.Subjects {
		if s.URL != "" {
			words = append(words, "--url '"+strings.ReplaceAll(s.URL, "'", `'\''`)+"'")
		}
	}
	return strings.Join(words, " ")
}

// fullStop is a text as a sentence of its own.
func fullStop(text string) string {
	if text == "" || strings.HasSuffix(text, ".") {
		return capital(text)
	}
	return capital(text) + "."
}

// capital is a name as it begins a line.
func capital(name string) string {
	first, size := utf8.DecodeRuneInString(name)
	if rest := name[size:]; strings.Contains(rest, " ") { // not a name such as "etcd"
		return string(unicode.ToUpper(first)) + rest
	}
	return name
}
