// Package servers finds and starts real lock servers, for tests, benchmarks and comparisons. Nothing else in the project
// starts one.
//
// The kinds are "redis" (alone, with a replica, with Sentinels, or as a cluster), "etcd" (alone or as a cluster, the installed
// version or a current one that is built here), "zookeeper" (alone or as an ensemble), "postgres" (alone or with replicas),
// "pgbouncer", "mariadb", "mysql" (MySQL's own server, which LOCKPORT_TEST_REQUIRE must list by name), and "nats" (built here).
//
// Servers are children of this process on free ports of 127.0.0.1. Each has a temporary folder of its own and, unless an option
// says otherwise, syncs nothing to disk. A server never outlives the process, not even its kill -9; only the temporary folder may be
// left behind then. No server runs as root: a root caller's servers run as nobody, who must be able to enter the temporary
// folder. Passwords that no option gives are random. The first start of a database leaves a template in the caller's cache
// folder, in lockport/servers, which later starts copy.
//
// Constructors return when the server answers; their context bounds the start alone, and the caller must Close what they return.
// A program that is not installed is a [*NotInstalled], which says what to install. Servers are safe for concurrent use.
//
// # In tests
//
// Tests call the Need functions, which start a server and close it when the test ends:
//
//   - under go test -short they always skip the test, so that the quick loop needs no server;
//   - a program that is not installed skips the test and says what to install, or fails it if the variable
//     LOCKPORT_TEST_REQUIRE is "all" or lists the kind or the program ("redis,etcd");
//   - a server that is installed and does not start fails the test, with the end of the server's log;
//   - when a test has failed, the end of the log is printed with it.
//
// Where any plain server will do, tests share one, which the first call starts and which ends with the process: [SharedRedis],
// [SharedEtcd], [SharedZooKeeper], [SharedPostgres], [SharedMariaDB]. Tests use names of their own on it and change no setting.
//
// LOCKPORT_TEST_WITHOUT lists programs that count as not installed ("redis-server,java"), to try what happens then.
package servers
