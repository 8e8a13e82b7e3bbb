#!/usr/bin/env bash
# Everything that is checked without running a test: gofmt -s, go mod tidy, go vet and staticcheck, the last two for both
# systems that the project is developed on, and that it compiles, without its tests, for Windows. Prints what is wrong and
# fails if anything is.
set -uo pipefail
cd "$(dirname "$0")/.." || exit
root=$PWD
systems='linux darwin'
status=0

# check TITLE COMMAND [ARG…] runs COMMAND; what it prints is shown if it failed.
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

# One run for both systems: what is unused on one but used on another is not reported.
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
