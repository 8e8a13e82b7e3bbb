package hazards

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/lockport/lockport/internal/lab/report"
)

// subjects are the columns, in their order.
var subjects = []string{report.Article, "file", "redis", "redlock", "etcd", "zookeeper", "postgres", "mysql"}

// table is every scenario, in the order of the hazards and subjects.
func table() []scenario {
	all := slices.Concat(h1, h2, h3, h4, h5, h6, h7, h8, h9, h10, h11, h12, h13, h14, h15)
	slices.SortStableFunc(all, func(a, b scenario) int {
		return cmp.Or(cmp.Compare(number(a.hazard), number(b.hazard)), cmp.Compare(slices.Index(subjects, a.subject), slices.Index(subjects, b.subject)))
	})
	return all
}

// number is 7 for "H7".
func number(hazard string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(hazard, "H"))
	return n
}
