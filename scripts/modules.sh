#!/usr/bin/env bash
# Lists the modules of this repository: nested ones first, the root last, so that its results end a run.
#
#   scripts/modules.sh                  print their folders
#   scripts/modules.sh COMMAND [ARG…]   run COMMAND in each; fail if it fails in any
set -euo pipefail
cd "$(dirname "$0")/.."

list() {
	# Without git metadata (an unpacked archive), search the folder instead.
	{ git ls-files --cached --others --exclude-standard -- go.mod '*/go.mod' 2>/dev/null || find . -name go.mod; } |
		sed -E -e 's,^\./,,' -e '/(^|\/)testdata\//d' | sort -u |
		while read -r file; do
			if [ "$file" != go.mod ] && [ -f "$file" ]; then dirname "$file"; fi
		done
	echo .
}

if [ $# -eq 0 ]; then
	list
	exit
fi
status=0
for module in $(list); do
	[ "$module" = . ] || echo "# module $module"
	(cd "$module" && "$@") || status=$?
done
exit "$status"
