package house

import (
	"fmt"
	"go/parser"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module is the path of the root module.
const module = "github.com/lockport/lockport"

// rule is one rule about the Go files of the root module. Its texts are regular expressions. Imports of this module are written ./driver; the root
// package is a dot.
type rule struct {
	why           string
	files, except string // the paths of the files
	tests         bool   // also test files
	only, never   string // what each import must match, and must not
	code          string // what no line must have, comments aside
	planted       string // a file that breaks the rule: its path, and its code or import
}

const (
	// library are the packages that programs link: the root, driver, fences, leader, backends and shared code.
	library   = `^([^/]+|(driver|fence|leader|backend|internal)/.*)\.go$`
	testTools = `^internal/(lab|pages|house)/`
	standard  = `[^./]+(/.*)?`
)

// clients are the modules that each backend may import besides this one. Importers of the backend depend on them too, so each needs a reason.
var clients = map[string][]string{
	// clientv3 is the client that applications use. Its messages (api), its transport (grpc) and its logger's type (zap) come with it. Several
	// claims in one transaction, and all watches on one stream, need these packages.
	"backend/etcd": {"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3", "google.golang.org/grpc", "go.uber.org/zap"},

	"backend/mysql": {"github.com/go-sql-driver/mysql"}, // the client that applications use: logins, TLS, the protocol of MariaDB and MySQL
	// pgx is the client that applications use for Postgres: it connects, authenticates, speaks the protocol, and hands out connections.
	"backend/postgres": {"github.com/jackc/pgx/v5"},

	"backend/redis":     {"github.com/redis/go-redis/v9"}, // its universal client speaks to servers, Sentinels and clusters alike
	"backend/zookeeper": {"github.com/go-zookeeper/zk"},   // attaches sessions, keeps them alive and sets their watches, in Go alone
	"backend/redlock":   {"github.com/redis/go-redis/v9"}, // the application's clients of the nodes, and their logins

	// A fence may import the backend whose locks it can check in the same step as the token.
	"fence/sqlfence":   {"./fence", "github.com/jackc/pgx/v5"}, // for pgx.Tx; MySQL's goes through database/sql alone
	"fence/redisfence": {"./fence", "github.com/redis/go-redis/v9", "./backend/redis"},
	"fence/etcdfence":  {"./fence", "go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3/v3rpc/rpctypes", "google.golang.org/grpc", "./backend/etcd"},
	"fence/zkfence":    {"./fence", "github.com/go-zookeeper/zk", "./backend/zookeeper"},
}

var rules = []rule{
	{why: "driver is the contract alone.", files: `^driver/[^/]+$`, only: standard, planted: "driver/x.go ."},
	{why: "internal/clock is below everything.", files: `^internal/clock/`, only: standard, planted: "internal/clock/x.go ./driver"},
	{why: "internal/lab/report shows what was observed, and starts nothing.", files: `^internal/lab/report/[^/]+$`, only: standard,
		planted: "internal/lab/report/x.go ./driver"},
	{why: "internal/lab/worker is used by conformance too.", files: `^internal/lab/worker/`, only: standard, planted: "internal/lab/worker/x.go ./driver"},
	{why: "The root package brings no client library to a program that imports it.", files: `^[^/]+$`, only: standard + `|./driver|./internal/clock`,
		planted: "x_windows.go github.com/redis/go-redis/v9"},
	{why: "conformance names no backend and needs no library.", files: `^conformance/[^/]+$`, only: standard + `|\.|./driver|./internal/lab/worker`,
		planted: "conformance/x.go ./backend/redis"},
	{why: "The package fence is the base of every fence.", files: `^fence/[^/]+$`, only: standard + `|\.|./driver`, planted: "fence/x.go ./internal/clock"},
	{why: "The package leader leads with any Locker, and needs nothing else.", files: `^leader/[^/]+$`, only: standard + `|\.`, planted: "leader/x.go ./driver"},
	{why: "A backend or fence imports no packages for tests.", files: `^(backend|fence)/`, never: `./internal/(lab|pages|house)(/.*)?`,
		planted: "backend/redis/x.go ./internal/lab/servers"},
	{why: "backend/all imports the backends, for the command, and nothing else.", files: `^backend/all/`, only: `./backend/.*`, planted: "backend/all/x.go ."},
	{why: "Only cmd imports backend/all: a program chooses its backends, and links no others.", files: `.`, except: `^cmd/`, never: `./backend/all`,
		planted: "compare/x.go ./backend/all"},
	{why: "internal/… is below the backends, the suite and the command, and imports none of them.", files: `^internal/`, except: testTools,
		never: `./(backend|cmd|compare|conformance|faults)(/.*)?`, planted: "internal/sql/x.go ./backend/memory"},
	{why: "The laboratory and faults name no backend: workers open URLs. They import no package that presents their results.",
		files: `^(internal/lab|faults)/`, never: `./(backend|cmd|compare|bench)(/.*)?`, planted: "internal/lab/x/x.go ./backend/redis"},
	{why: "testify is for tests and their kits, and so is the porcupine linearizability checker: programs that import the library must not link them.",
		files: `.`, except: `^internal/lab/(fencetest|history/linear|migrations|peer|ticks)/`,
		never:   `github.com/(stretchr/testify|anishathalye/porcupine).*|./internal/lab/(fencetest|history/linear|migrations|peer|ticks)`,
		planted: "compare/x.go github.com/stretchr/testify/assert"},
	{why: "The package testing adds flags to a program. In conformance, testing.go alone imports it.", files: library + `|^conformance/[^/]+$`,
		except: testTools + `|^conformance/testing.go$`, never: `testing(/.*)?`, planted: "backend/redis/x.go testing/synctest"},
	{why: "The root package alone logs, to the slog.Logger that it was given: return an error or a driver.Notice for it to log.",
		files: library, except: testTools + `|^[^/]+$`, never: `log|log/slog`, planted: "backend/redis/x.go log/slog"},
	{why: "A request reaches its server through the client's own API: the library imports no wire protocol.",
		files: library, except: testTools, never: `(.*/)?(pgproto3|[^/]*pb)|google.golang.org/protobuf.*`, planted: "internal/x/x.go go.etcd.io/etcd/api/v3/etcdserverpb"},
	// A dialing function's result type is prescribed by the client. Postgres' keepAlive sets an option of the socket that pgx exposes for that.
	{why: "A request reaches its server through the client's own API: the library touches no connection below the client.",
		files: library, except: testTools + `|^backend/postgres/link.go$`, code: `\bnet\.(Conn($|[^,]|, [^e])|TCPConn|UnixConn|Listen)`,
		planted: "backend/redis/x.go type conn struct{ net.Conn }"},
	{why: "A dot import hides where a name comes from, from readers and from these rules.", files: `.`, tests: true, code: `^(import)?\s*\. "`,
		planted: `x.go import . "fmt"`},
	{why: "Only the command ends the process (and workers of internal/lab): return an error.", files: `.`, except: `^cmd/|^internal/lab/worker/kind.go$`,
		code: `\b(os|syscall)\.Exit\b|\blog\.Fatal`, planted: "x.go var exit = os.Exit"},
	{why: "The library never reads or changes the environment (this includes temporary and home folders): what it needs is an option.",
		files: library, except: testTools, code: `\b(os|syscall)\.(\w+[eE]nv|Environ|TempDir|User\w+Dir)\b`,
		planted: "backend/redis/x.go func f() { _ = os.Getenv(``) }"},
	{why: "The library never prints: return an error or a driver.Notice for the client to log.", files: library, except: testTools,
		code: `\bfmt\.Print|\bos\.Std(out|err)\b`, planted: "driver/x.go func f() { fmt.Println() }"},
	{why: "A backend never sleeps and never retries: the client does so, within the caller's context.", files: library, except: testTools + `|^[^/]+$`,
		code: `\btime\.Sleep\b`, planted: "backend/redis/x.go func f() { time.Sleep(1) }"},
}

// allRules are rules, and those of each backend and fence.
func allRules(backends []string) []rule {
	all := slices.Clone(rules)
	for _, dir := range backends {
		own := `|\.|./` + dir + `(/.*)?`
		all = append(all, rule{why: "A backend does not know the others, nor do its tests; shared code belongs in internal/.",
			files: "^" + dir + "/", tests: true, only: `[^.].*|./[^b].*` + own, planted: dir + "/x_test.go ./backend/other"})
	}
	for _, dir := range slices.Concat(backends, slices.Sorted(maps.Keys(clients))) {
		may := standard + `|\.|./driver|./internal/.*|./` + dir + `(/.*)?`
		for _, client := range clients[dir] {
			may += "|" + regexp.QuoteMeta(client) + "(/.*)?"
		}
		all = append(all, rule{why: "A backend or fence imports the standard library, core packages, and what the table clients in internal/house/rules_test.go names.",
			files: "^" + dir + "/", only: may, planted: dir + "/x.go gopkg.in/yaml.v3"})
	}
	return all
}

var comment = regexp.MustCompile(`(?m)(^|[ \t])[ \t]*//.*$`)

var known = make(map[string]*regexp.Regexp)

// compiled compiles each expression once.
func compiled(expr string) *regexp.Regexp {
	if known[expr] == nil {
		known[expr] = regexp.MustCompile(expr)
	}
	return known[expr]
}

// broken returns what breaks r in a Go file. code is its text without comments.
func (r rule) broken(f file, code string) (lines []string) {
	if !compiled(r.files).MatchString(f.path) || r.except != "" && compiled(r.except).MatchString(f.path) ||
		!r.tests && strings.HasSuffix(f.path, "_test.go") {
		return nil
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), f.path, f.text, parser.ImportsOnly)
	if err != nil {
		return []string{err.Error()}
	}
	for _, spec := range parsed.Imports {
		path, _ := strconv.Unquote(spec.Path.Value)
		if path == module || strings.HasPrefix(path, module+"/") {
			path = "." + strings.TrimPrefix(path, module)
		}
		whole := func(of string) bool { return compiled("^(" + of + ")$").MatchString(path) }
		if r.only != "" && !whole(r.only) || r.never != "" && whole(r.never) {
			lines = append(lines, fmt.Sprintf("%s imports %s. %s", f.path, path, r.why))
		}
	}
	if r.code == "" {
		return lines
	}
	for i, line := range strings.Split(code, "\n") {
		if compiled(r.code).MatchString(line) {
			lines = append(lines, fmt.Sprintf("%s:%d: %q. %s", f.path, i+1, strings.TrimSpace(line), r.why))
		}
	}
	return lines
}
