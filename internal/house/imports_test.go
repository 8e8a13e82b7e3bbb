package house

import (
	"path"
	"slices"
	"strings"
)

// clients are the modules that each backend may import besides this one. Importers of the backend depend on them too, so each needs a reason.
var clients = map[string][]string{
	// clientv3 is the client that applications use. Its messages (api), its transport (grpc) and its logger's type (zap) come with it. Several
	// claims in one transaction, and all watches on one stream, need these packages.
	"etcd": {"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3", "google.golang.org/grpc", "go.uber.org/zap"},

	"mysql": {"github.com/go-sql-driver/mysql"}, // the client that applications use: logins, TLS, the protocol of MariaDB and MySQL
	// pgx is the client that applications use for Postgres: it connects, authenticates, speaks the protocol, and hands out connections.
	"postgres": {"github.com/jackc/pgx/v5"},

	"redis":     {"github.com/redis/go-redis/v9"}, // its universal client speaks to servers, Sentinels and clusters alike
	"zookeeper": {"github.com/go-zookeeper/zk"},   // attaches sessions, keeps them alive and sets their watches, in Go alone
	"redlock":   {"github.com/redis/go-redis/v9"}, // the application's clients of the nodes, and their logins
}

// fences are the clients that each package below fence may import. A backend in the list is one whose locks the fence can check in the same step as
// the token.
var fences = map[string][]string{
	"sqlfence":   {"github.com/jackc/pgx/v5"}, // for pgx.Tx; MySQL's goes through database/sql alone
	"redisfence": {"github.com/redis/go-redis/v9", "backend/redis"},
	"etcdfence":  {"go.etcd.io/etcd/client/v3", "go.etcd.io/etcd/api/v3/v3rpc/rpctypes", "google.golang.org/grpc", "backend/etcd"},
	"zkfence":    {"github.com/go-zookeeper/zk", "backend/zookeeper"},
}

// importRules say who may import whom.
var importRules = []rule{
	// These packages import only the standard library and the listed packages of this module.
	only("driver", "driver is the contract alone."),
	only("internal/clock", "internal/clock is below everything."),
	only("internal/lab/report", "internal/lab/report shows what was observed, and starts nothing."),
	only("internal/lab/worker", "internal/lab/worker is used by conformance too."),
	only(".", "The root package brings no client library to a program that imports it.", "driver", "internal/clock"),
	only("conformance", "conformance names no backend and needs no library.", ".", "driver", "internal/lab/worker"),
	only("fence", "The package fence is the base of every fence.", ".", "driver"),
	only("leader", "The package leader leads with any Locker, and needs nothing else.", "."),

	importRule("A backend imports the standard library, the root package, driver, internal/… (but for what serves tests) "+
		"and its own client, which the table clients in internal/house/imports_test.go names.",
		func(s *source) bool { return isBackend(s) && !s.test }, func(s *source, r reference) bool {
			// A separate rule covers other backends.
			return r.standard() || r.under("backend") || mayImport(r, clients[backendOf(s.dir)])
		}),

	importRule("A backend does not know the others, nor do its tests; shared code belongs in internal/.",
		isBackend, func(s *source, r reference) bool {
			return !r.under("backend") || backendOf(r.dir) == backendOf(s.dir)
		}),

	importRule("backend/all imports the backends, for the command, and nothing else.",
		shippedIn("backend/all"), func(_ *source, r reference) bool { return r.under("backend") }),

	importRule("Only cmd imports backend/all: a program chooses its backends, and links no others.",
		func(s *source) bool { return !under(s.dir, "cmd") && s.dir != "backend/all" },
		func(_ *source, r reference) bool { return !r.under("backend/all") }),

	importRule("A package below fence imports the standard library, the root package, driver, fence, internal/… (but for what serves tests), and "+
		"what the table fences in internal/house/imports_test.go names.",
		func(s *source) bool { return fenceOf(s.dir) != "" && !s.test }, func(s *source, r reference) bool {
			return r.standard() || r.ours && r.dir == "fence" || mayImport(r, fences[fenceOf(s.dir)])
		}),

	importRule("internal/… is below the backends, the suite and the command, and imports none of them. internal/lab has a rule of its own.",
		func(s *source) bool { return under(s.dir, "internal") && !isTestTool(s.dir) && !s.test }, func(_ *source, r reference) bool {
			return !slices.ContainsFunc([]string{"backend", "cmd", "compare", "conformance", "faults"}, r.under)
		}),

	importRule("The laboratory names no backend, so that the tests of every backend can use it: workers open URLs. It imports no package that presents its results either.",
		func(s *source) bool { return under(s.dir, "internal/lab") && !s.test }, func(_ *source, r reference) bool {
			return !slices.ContainsFunc([]string{"backend", "cmd", "compare", "faults", "bench"}, r.under)
		}),

	importRule("faults names no backend: workers open URLs, and tests and commands import the backends.",
		shippedIn("faults"), func(_ *source, r reference) bool {
			return !slices.ContainsFunc([]string{"backend", "cmd", "compare"}, r.under)
		}),

	importRule("testify is for tests, and so is the porcupine linearizability checker: programs that import the library must not link them.",
		func(s *source) bool { return !s.test && s.dir != judge }, func(_ *source, r reference) bool {
			return !under(r.path, "github.com/stretchr/testify") && !under(r.path, "github.com/anishathalye/porcupine") && !r.under(judge)
		}),

	importRule("The package testing adds flags to a program, so the library must not import it.",
		library, func(_ *source, r reference) bool {
			return r.path != "testing" && !strings.HasPrefix(r.path, "testing/")
		}),

	importRule("conformance runs outside go test too: testing.go alone imports the package testing.",
		func(s *source) bool { return shippedIn("conformance")(s) && s.name != "testing.go" },
		func(_ *source, r reference) bool { return r.path != "testing" }),

	importRule("The root package alone logs, to the slog.Logger that it was given: return an error or a driver.Notice for it to log.",
		library, func(s *source, r reference) bool { return r.path != "log" && (s.dir == "." || r.path != "log/slog") }),

	importRule("A request reaches its server through the client's own API: the library imports no wire protocol.",
		library, func(_ *source, r reference) bool {
			last := path.Base(r.path)
			return last != "pgproto3" && !strings.HasSuffix(last, "pb") && !under(r.path, "google.golang.org/protobuf")
		}),

	importRule("A dot import hides where a name comes from, from readers and from these rules.",
		func(*source) bool { return true }, func(_ *source, r reference) bool { return r.local != "." }),
}

// judge is the package that checks the linearizability of histories.
const judge = "internal/lab/history/linear"

// isBackend selects the files of the backends, including tests.
func isBackend(s *source) bool { return backendOf(s.dir) != "" && backendOf(s.dir) != "all" }

// mayImport reports whether r is a core package, shared code, or in own, a list of folders and modules.
func mayImport(r reference, own []string) bool {
	if r.ours {
		return r.dir == "." || r.dir == "driver" || sharedInternal(r.dir) || slices.Contains(own, r.dir)
	}
	return slices.ContainsFunc(own, func(m string) bool { return under(r.path, m) })
}
