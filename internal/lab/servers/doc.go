// Package servers finds and starts real lock servers, for tests, benchmarks and comparisons. No other package starts one.
//
// It knows Redis (alone, several, with a replica, or as a cluster), etcd (alone or as a cluster, the installed version or a current one that is built
// here), ZooKeeper (alone or as an ensemble), PostgreSQL (alone or with replicas), PgBouncer, MariaDB or Oracle's MySQL, and NATS (built here).
//
// Servers are children of this process on free ports of 127.0.0.1. Each has its own folder and syncs nothing to disk unless an option
// says so. No server and no folder outlives this process, even if it is killed with SIGKILL. No server runs as root:
// if root runs the tests, servers run as nobody, who must be able to enter the folder. Passwords that no option sets are random.
//
// Constructors return when the server answers. Their context bounds the start alone. The caller must Close what they return. If a program is
// missing, the error is a [*NotInstalled], which says what to install. Servers are safe for concurrent use.
//
// # In tests
//
// Tests call the Need functions, which start a server and close it when the test ends:
//
//   - under go test -short they skip the test, so that the quick loop needs no server, unless LOCKPORT_TEST_SERVERS is set;
//   - a program that is not installed skips the test and says what to install, or fails it if the variable
//     LOCKPORT_TEST_REQUIRE is "all" or lists the program ("redis-server,etcd");
//   - a server that is installed and does not start fails the test, with the end of the server's log;
//   - when a test has failed, the end of the log is printed with it.
//
// Tests that need only a plain server share one: [SharedRedis], [SharedEtcd], [SharedZooKeeper], [SharedPostgres], [SharedMariaDB]. The first call
// starts it, and it ends with the process. On a shared server, tests use unique names and change no setting.
//
// make test sets LOCKPORT_TEST_DATA to a folder in memory, if there is one with room. By default, servers keep their data in the system's temporary folder.
//
// LOCKPORT_TEST_MYSQLD is the path of the mysqld of Oracle's MySQL 8.0 or newer. It then takes MariaDB's place.
//
// LOCKPORT_TEST_WITHOUT lists programs to treat as not installed ("redis-server,java"), to test that case.
package servers
