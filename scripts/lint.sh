#!/usr/bin/env bash
# Runs all checks except tests: gofmt -s, go mod tidy, go vet and staticcheck (both for Linux and macOS), and go build for Windows, without the
# tests. Prints the problems, and fails if there are any.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
root=$PWD
systems='linux darwin'
status=0

# check TITLE COMMAND [ARG…] runs COMMAND and prints its output if it fails.
check() {
	local title=$1 output
	shift
	if ! output=$("$@" 2>&1); then
		printf 'lint: %s:\n%s\n' "$title" "$output"
		status=1
	fi
}

formatted() {
	local files
	files=$(gofmt -s -l .) || return 1
	[ -z "$files" ] || { printf '%s\n' "$files" 'run: gofmt -s -w .'; return 1; }
}

tidy() { go mod tidy -diff || { echo 'run: go mod tidy'; return 1; }; }

# One run covers both systems: code that only one of them uses is not reported as unused.
static() {
	for system in $systems; do echo "$system: GOOS=$system CGO_ENABLED=0"; done |
		go tool -modfile="$root/tools/go.mod" staticcheck -matrix ./...
}

check 'gofmt -s' formatted
for module in $(scripts/modules.sh); do
	cd "$root/$module" || exit 1
	check "go mod tidy in $module" tidy
	for system in $systems; do
		check "go vet of $module for $system" env GOOS="$system" CGO_ENABLED=0 go vet ./...
	done
	check "go build of $module for windows" env GOOS=windows CGO_ENABLED=0 go build -o /dev/null ./...
	check "staticcheck of $module" static
done
[ "$status" -ne 0 ] || echo 'lint: ok'
exit "$status"
