#!/usr/bin/env bash
# Runs the tests of the backends and fences, with -short, on real servers with the newest supported client libraries. go.mod requires the oldest
# supported versions, to force no upgrade on a program. `make test` uses those.
#
#   scripts/clients.sh                    vets everything and runs the tests with the newest clients
#   scripts/clients.sh oldest             the same with the oldest
#   scripts/clients.sh newest ARG…        more for go test, such as -v
set -euo pipefail
cd "$(dirname "$0")/.."

# Module, oldest, newest. A test of internal/house compares this table with go.mod and docs/testing.md.
clients='
github.com/redis/go-redis/v9    v9.23.0  v9.23.0
github.com/jackc/pgx/v5         v5.6.0   v5.13.0
github.com/go-sql-driver/mysql  v1.8.1   v1.10.1
github.com/go-zookeeper/zk      v1.0.4   v1.0.4
go.etcd.io/etcd/client/v3       v3.6.0   v3.7.3
'

which=${1:-newest}
shift || true
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
cp go.sum "$copy"
# Drop the indirect requirements and those that come with clientv3; the go command finds them again. go.mod may require other versions than these
# clients do.
grep -vE '// indirect$|go.etcd.io/etcd/api|google.golang.org/grpc|go.uber.org/zap' go.mod >"$copy/go.mod"
while read -r module oldest newest; do
	[ -n "$module" ] || continue
	version=$newest
	if [ "$which" = oldest ]; then version=$oldest; fi
	go mod edit -require="$module@$version" "$copy/go.mod"
done <<<"$clients"
export GOFLAGS="${GOFLAGS:-} -modfile=$copy/go.mod -mod=mod"
go vet ./...
LOCKPORT_TEST_SERVERS=yes go test -short -count=1 "$@" ./backend/... ./fence/... ./internal/lockurl
