package house

import (
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

// valid is a small module that follows every rule.
var valid = map[string]string{
	"client.go":                            goFile("lockport", "log/slog", module+"/driver", module+"/internal/clock"),
	"client_test.go":                       goFile("lockport_test", module+"/backend/memory", "github.com/stretchr/testify/require"),
	"driver/driver.go":                     goFile("driver", "context"),
	"internal/clock/clock.go":              goFile("clock", "time"),
	"internal/dial/dial.go":                "package dial\nimport \"net\"\ntype dial func(address string) (net.Conn, error)\n",
	"internal/lab/servers/redis.go":        goFile("servers", "testing", "log"),
	"internal/lab/servers/find.go":         using("os", "func f() { os.Getenv(``) }"),
	"conformance/worker.go":                using("os", "func WorkerMain() { os.Exit(0) }"),
	"conformance/testing.go":               goFile("conformance", "testing", module, module+"/driver"),
	"backend/memory/doc.go":                goFile("memory", module, module+"/driver", module+"/internal/clock"),
	"backend/redis/doc.go":                 goFile("redis", "github.com/redis/go-redis/v9/push", module+"/internal/clock"),
	"backend/redis/redis_test.go":          goFile("redis", "testing", "log", module+"/internal/lab/servers"),
	"backend/all/all.go":                   goFile("all", module+"/backend/memory", module+"/backend/redis"),
	"fence/fence.go":                       goFile("fence", module, module+"/driver"),
	"fence/redisfence/fence.go":            goFile("redisfence", "github.com/redis/go-redis/v9", module+"/fence", module+"/backend/redis"),
	"faults/redis.go":                      goFile("faults", module+"/internal/lab/play", module+"/internal/lab/servers"),
	"internal/lab/history/linear/check.go": goFile("linear", module+"/internal/lab/history", "github.com/anishathalye/porcupine"),
	"faults/cells_test.go":                 goFile("faults_test", module+"/internal/lab/history/linear", module+"/backend/redis"),
	"cmd/lockport/main.go":                 using("log", "func main() { log.Fatal() }"),
	"cmd/lockport/backends.go":             goFile("main", module+"/backend/all"),
	"bench/go.mod":                         "module bench\n",
	"bench/bench.go":                       goFile("bench", module+"/backend/all", "log"),
	"driver/testdata/bad.go":               "no Go at all",
	"docs/backends/memory.md":              "",
	"docs/backends/redis.md":               "",
	"docs/decisions/0001-locks.md":         "",
	"adapters/cron/go.mod":                 "module cron\n",
	"adapters/cron/README.md":              "",
	"backend/memory/example_test.go":       goFile("memory_test"),
	"backend/redis/example_test.go":        goFile("redis_test"),

	"backend/memory/conformance_test.go": runsSuite,
	"backend/redis/conformance_test.go":  runsSuite,
}

var runsSuite = using("suite "+module+"/conformance", "func TestConformance() { suite.Test() }")

// goFile returns a Go file with blank imports.
func goFile(name string, imports ...string) string {
	text := "package " + name + "\n"
	for _, i := range imports {
		text += "import _ \"" + i + "\"\n"
	}
	return text
}

// deleted, as the text of a planted file, deletes the file.
const deleted = "-"

// planted are violations of the rules, each with the expected report.
var planted = []struct{ file, text, want string }{
	{"driver/x.go", goFile("driver", module), "imports " + module + ". driver is"},
	{"internal/clock/x.go", goFile("clock", module+"/driver"), "/driver. internal/clock is"},
	{"x.go", goFile("lockport", "os", "github.com/redis/go-redis/v9"), "x.go:3: imports github.com/redis/go-redis/v9. The root"},
	{"x_windows.go", goFile("lockport", module+"/backend/file"), "imports " + module + "/backend/file. The root"},
	{"conformance/x.go", goFile("conformance", module+"/backend/redis"), "/backend/redis. conformance names"},
	{"backend/redis/x.go", goFile("redis", "github.com/jackc/pgx/v5"), "pgx/v5. A backend imports"},
	{"backend/redis/x.go", goFile("redis", module+"/backend/memory"), "/backend/memory. A backend does not know"},
	{"backend/redis/x_test.go", goFile("redis", module+"/backend/memory"), "/backend/memory. A backend does not know"},
	{"backend/all/x.go", goFile("all", module), "imports " + module + ". backend/all imports"},
	{"compare/x.go", goFile("compare", module+"/backend/all"), "/backend/all. Only cmd imports"},
	{"internal/lab/report/x.go", goFile("report", module+"/driver"), "/driver. internal/lab/report shows"},
	{"fence/x.go", goFile("fence", module+"/internal/clock"), "/internal/clock. The package fence is"},
	{"leader/x.go", goFile("leader", module+"/driver"), "/driver. The package leader"},
	{"fence/redisfence/x.go", goFile("redisfence", "github.com/go-zookeeper/zk"), "go-zookeeper/zk. A package below fence"},
	{"internal/sql/x.go", goFile("sql", module+"/backend/memory"), "/backend/memory. internal/… is below"},
	{"faults/x.go", goFile("faults", module+"/backend/redis"), "/backend/redis. faults names no backend"},
	{"internal/lab/worker/x.go", goFile("worker", module+"/driver"), "/driver. internal/lab/worker is"},
	{"internal/lab/x/x.go", goFile("x", module+"/backend/redis"), "/backend/redis. The laboratory names"},
	{"compare/x.go", goFile("compare", module+"/internal/lab/history/linear"), "/internal/lab/history/linear. testify is"},
	{"compare/x.go", goFile("compare", "github.com/stretchr/testify/assert"), "testify/assert. testify is"},
	{"backend/redis/x.go", goFile("redis", "testing/synctest"), "testing/synctest. The package testing"},
	{"conformance/x.go", goFile("conformance", "testing"), "imports testing. conformance runs"},
	{"backend/redis/x.go", goFile("redis", "log/slog"), "imports log/slog. The root package alone"},
	{"x.go", goFile("lockport", "log"), "imports log. The root package alone"},
	{"x.go", "package lockport\nimport . \"fmt\"\n", "x.go:2: imports fmt. A dot import"},

	{"x.go", using("os", "var exit = os.Exit"), "x.go:3: uses os.Exit. Only the command"},
	{"compare/x.go", using("log", "func f() { log.Fatalf(``) }"), "uses log.Fatalf. Only the command"},
	{"conformance/x.go", using("os", "func f() { os.Exit(1) }"), "uses os.Exit. Only the command"},
	{"backend/redis/x.go", using("os", "func f() { _ = os.Getenv(``) }"), "uses os.Getenv. The library never reads"},
	{"driver/x.go", using("fmt", "func f() { fmt.Println() }"), "uses fmt.Println. The library never prints"},
	{"backend/redis/x.go", using("time", "type t int; func (t) f() { time.Sleep(1) }"), "uses time.Sleep. A backend never"},

	{"fence/sqlfence/x.go", goFile("sqlfence", "github.com/jackc/pgx/v5/pgproto3"), "pgproto3. A request reaches"},
	{"internal/x/x.go", goFile("x", "go.etcd.io/etcd/api/v3/etcdserverpb"), "etcdserverpb. A request reaches"},
	{"backend/redis/x.go", using("net", "type conn struct{ net.Conn }"), "uses net.Conn. A request reaches"},
	{"internal/sql/x.go", using("net", "func f(c interface{ Read() }) bool { _, ok := c.(*net.TCPConn); return ok }"), "uses net.TCPConn. A request reaches"},

	{"backend/redis/doc.go", deleted, "backend/redis: has no doc.go. Every backend"},
	{"backend/redis/conformance_test.go", deleted, "backend/redis: has no conformance_test.go. Every backend"},
	{"backend/memory/example_test.go", deleted, "backend/memory: has no example_test.go. Every backend"},
	{"docs/backends/redis.md", deleted, "backend/redis: has no page docs/backends/redis.md. Every backend"},
	{"backend/redis/conformance_test.go", goFile("redis", module+"/conformance"), "does not call conformance.Test. A suite"},
	{"backend/redis/conformance_test.go", runsSuite + strings.Repeat("\n", 40), "conformance_test.go: has 43 lines. A backend's"},
	{"backend/all/all.go", goFile("all", module+"/backend/memory"), "does not import backend/redis. The command"},
	{"adapters/cron/go.mod", deleted, "adapters/cron: has no go.mod. An adapter"},
	{"adapters/cron/README.md", deleted, "adapters/cron: has no README.md. An adapter"},
	{"docs/decisions/0001-other.md", "", "docs/decisions/0001-other.md: has the same number as 0001-locks.md. A decision"},
	{"docs/decisions/Notes.md", "", "docs/decisions/Notes.md: has a wrong form of name. A decision"},
	{"docs/backends/redis.md", "[x](../decisions/0001-locks.md#a) [y](https://x/y.md) [z](../decisions/0002-x.md)", "docs/backends/redis.md: links to ../decisions/0002-x.md. A page"},
	{"backend/redis/x.go", "package redis // docs/decisions/0001-locks.md, docs/decisions/0002-x.md\n", "x.go: names docs/decisions/0002-x.md. A comment"},
}

// using returns a Go file that imports one package, perhaps renamed, and uses it.
func using(imported, text string) string {
	name, path, renamed := strings.Cut(imported, " ")
	if !renamed {
		path = name
	}
	return "package x\nimport " + name + " \"" + path + "\"\n" + text + "\n"
}

func memoryFS(files map[string]string) fs.FS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

// A valid module causes no report, and each violation exactly one, by the right rule.
func TestPlantedViolations(t *testing.T) {
	clean, err := readTree(memoryFS(valid))
	require.NoError(t, err)
	require.Empty(t, clean.violations())

	proven := make(map[string]bool)
	for _, p := range planted {
		files := maps.Clone(valid)
		if files[p.file] = p.text; p.text == deleted {
			delete(files, p.file)
		}
		broken, err := readTree(memoryFS(files))
		require.NoError(t, err)
		lines := broken.violations()
		require.Len(t, lines, 1, "%s: %q", p.file, lines)
		require.Contains(t, lines[0], p.want, p.file)
		for _, r := range allRules() {
			if strings.HasSuffix(lines[0], ". "+r.text) {
				proven[r.text] = true
			}
		}
	}
	for _, r := range allRules() {
		require.True(t, proven[r.text], "no planted violation proves the rule: %s", r.text)
	}
}
