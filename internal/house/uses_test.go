package house

// useRules say what the library must not do to its host program.
var useRules = []rule{
	useRule("Only the command ends the process (and, as documented, WorkerMain of conformance, and Main and WorkerMain in internal/lab): return an error.",
		func(s *source) bool { return !s.test && !under(s.dir, "cmd") },
		map[string][]string{
			"os":      {"Exit"},
			"syscall": {"Exit"},
			"log":     {"Fatal", "Fatalf", "Fatalln"},
		},
		func(s *source, u use) bool {
			return u.pkg == "os" && (s.dir == "conformance" && u.function == "WorkerMain" ||
				under(s.dir, "internal/lab") && (u.function == "Main" || u.function == "WorkerMain"))
		}),

	useRule("The library never reads or changes the environment (this includes temporary and home folders): what it "+
		"needs is an option.",
		library,
		map[string][]string{
			"os": {
				"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv",
				"TempDir", "UserHomeDir", "UserCacheDir", "UserConfigDir",
			},
			"syscall": {"Getenv", "Environ", "Setenv", "Unsetenv", "Clearenv"},
		}, nil),

	useRule("The library never prints: return an error or a driver.Notice for the client to log.",
		library,
		map[string][]string{
			"fmt": {"Print", "Printf", "Println"},
			"os":  {"Stdout", "Stderr"},
		}, nil),

	useRule("A backend never sleeps and never retries: the client does so, within the caller's context.",
		func(s *source) bool { return library(s) && s.dir != "." },
		map[string][]string{"time": {"Sleep"}}, nil),

	// A dialing function's result type is prescribed by the client. Postgres' keepAlive sets an option of the socket that pgx exposes for that.
	useRule("A request reaches its server through the client's own API: the library touches no connection below the client.",
		library,
		map[string][]string{"net": {"Conn", "TCPConn", "UnixConn", "Listen"}},
		func(s *source, u use) bool {
			return u.result || s.dir == "backend/postgres" && u.function == "keepAlive"
		}),
}
