package house

// useRules hold what the library may not do to the program it is part of.
var useRules = []rule{
	useRule("Only the command ends the process (and WorkerMain of conformance, and Main and WorkerMain in the laboratory, which are documented to): return an error.",
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

	useRule("The library never reads or changes the environment (temporary and home folders follow from it too): what it "+
		"needs is an option.",
		library,
		map[string][]string{
			"os": {
				"Getenv", "LookupEnv", "Environ", "ExpandEnv", "Setenv", "Unsetenv", "Clearenv",
				"TempDir", "UserHomeDir", "UserCacheDir", "UserConfigDir",
			},
			"syscall": {"Getenv", "Environ", "Setenv", "Unsetenv", "Clearenv"},
		}, nil),

	useRule("The library never prints: what the client should log is an error or a driver.Notice.",
		library,
		map[string][]string{
			"fmt": {"Print", "Printf", "Println"},
			"os":  {"Stdout", "Stderr"},
		}, nil),

	useRule("A backend never sleeps, and never retries: the client does, on the caller's context.",
		func(s *source) bool { return library(s) && s.dir != "." },
		map[string][]string{"time": {"Sleep"}}, nil),

	// The result of a function that dials is what a client asks of it. Postgres' keepAlive sets an option of the socket that pgx gives out for that.
	useRule("A request reaches its server through the client's own API: the library touches no connection below the client.",
		library,
		map[string][]string{"net": {"Conn", "TCPConn", "UnixConn", "Listen"}},
		func(s *source, u use) bool {
			return u.result || s.dir == "backend/postgres" && u.function == "keepAlive"
		}),
}
