package compare

import (
	"slices"
	"strings"

	"github.com/lockport/lockport/internal/lab/report"
)

// subjects are the columns of a report, in their order. The kind is that of servers.Versions which runs for it, and server what people call it.
var subjects = []struct {
	report.Subject
	kind, server string
}{
	{report.Subject{Name: report.Article, Title: "An article's lock"}, "redis", "Redis"},
	{report.Subject{Name: "file", Title: "File", Page: "file"}, "", ""},
	{report.Subject{Name: "redis", Title: "Redis", Page: "redis"}, "redis", "Redis"},
	{report.Subject{Name: "redlock", Title: "Redlock", Page: "redlock"}, "redis", "Redis"},
	{report.Subject{Name: "etcd", Title: "etcd", Page: "etcd"}, "etcd", "etcd"},
	{report.Subject{Name: "zookeeper", Title: "ZooKeeper", Page: "zookeeper"}, "zookeeper", "ZooKeeper"},
	{report.Subject{Name: "postgres", Title: "PostgreSQL", Page: "postgres"}, "postgres", "PostgreSQL"},
	{report.Subject{Name: "mysql", Title: "MariaDB", Page: "mysql"}, "mariadb", "MariaDB"},
	{report.Subject{Name: "table", Title: "Table", Page: "table"}, "postgres", "PostgreSQL"},
}

// present are the subjects of which r has something, with the versions of their servers; theirs are those of a user's own servers.
func present(r *report.Report, theirs []report.Subject, versions map[string]string) []report.Subject {
	var all []report.Subject
	for _, s := range subjects {
		seen := slices.ContainsFunc(r.Cells, func(c report.Cell) bool { return c.Subject == s.Name }) ||
			slices.ContainsFunc(r.Costs, func(c report.Costs) bool { return c.Subject == s.Name })
		i := slices.IndexFunc(theirs, func(t report.Subject) bool { return t.Name == s.Name })
		if !seen || i >= 0 && theirs[i].URL != "" {
			continue
		}
		if s.server != "" {
			s.Servers = strings.TrimSpace(s.server + " " + versions[s.kind])
		}
		all = append(all, s.Subject)
	}
	return append(all, slices.DeleteFunc(slices.Clone(theirs), func(t report.Subject) bool { return t.URL == "" })...)
}

// merge has each program that is missing once.
func merge(all []report.Missing) (merged []report.Missing) {
	for _, m := range all {
		i := slices.IndexFunc(merged, func(have report.Missing) bool { return have.Program == m.Program })
		if i < 0 {
			merged = append(merged, m)
			continue
		}
		for _, s := range m.Subjects {
			if !slices.Contains(merged[i].Subjects, s) {
				merged[i].Subjects = append(merged[i].Subjects, s)
			}
		}
	}
	return merged
}
