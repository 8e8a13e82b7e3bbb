// Package servers finds and starts real lock servers, for tests, benchmarks and comparisons. Nothing else in the project
// starts one.
//
// The kinds are "redis" (alone, with a replica, Sentinels, or as a cluster), "etcd" (alone or as a cluster, the installed
// one or a current one that is built here), "zookeeper" (alone or as an ensemble), "postgres" (alone or with replicas), "pgbouncer",
// "mariadb", and "mysql" (MySQL's own, which LOCKPORT_TEST_REQUIRE must list by name).
//
// Servers are children of this process on free ports of 127.0.0.1, each with a temporary folder of its own and, unless
// asked otherwise, without persistence. They never outlive the process, not even its kill -9: on Linux the kernel
// sees to that, elsewhere a watching shell does. Only the temporary folder may then be left behind. No server runs as root: where
// the caller is root, servers run as nobody, who must be able to enter the temporary folder. Passwords that no option gives are random.
// What the first start of a database makes is kept in the caller's cache folder, in lockport/servers, for later starts to copy.
//
// Constructors return when the server answers; their context bounds the start alone. A program that is not installed is
// a [*NotInstalled], which says what to install. Servers are safe for concurrent use.
//
// # In tests
//
// Tests call the Need functions, which start what they are asked for and close it when the test ends:
//
//   - under go test -short they skip the test, always, so that the quick loop needs no server;
//   - a program that is not installed skips the test and says what to install, or fails it if the variable
//     LOCKPORT_TEST_REQUIRE is "all" or lists the kind or the program ("redis,etcd");
//   - a server that is installed and does not start fails the test, with the end of the server's log;
//   - when a test has failed, the end of the log is printed with it.
//
// Where any plain server will do, tests share one: [SharedRedis], [SharedEtcd], [SharedZooKeeper], [SharedPostgres], [SharedMariaDB]. The
// first call starts it, and it ends with the process.
//
// LOCKPORT_TEST_WITHOUT lists programs that count as not installed ("redis-server,java"), so that what happens then can be tried.
//
// LOCKPORT_TEST_REDIS_URL names a Redis to use instead of a child where a test asks for nothing but a Redis: [SharedRedis], and
// [NeedRedis] with zero options.
package servers
