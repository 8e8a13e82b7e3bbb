#!/usr/bin/env bash
# Installs missing lock servers for the tests. It first says what it will install. It uses apt-get on Debian and Ubuntu (as root, or with
# password-less sudo) and Homebrew on macOS. On other systems, or if the installation fails, it says what to install and exits with 0. Tests without
# their server are skipped, or fail if LOCKPORT_TEST_REQUIRE=all. If nothing is missing it prints nothing.
#
#   scripts/install-servers.sh           with LOCKPORT_TEST_INSTALL=no it installs nothing and says what is missing
#   scripts/install-servers.sh --check   installs nothing; fails if something is missing
#
# It starts no service, now or at the next boot, and touches no running service: the tests start their own servers on free ports. See
# docs/decisions/0027-test-servers-are-installed-not-started.md.
set -euo pipefail

# What to look for, its Debian package, its Homebrew formula ("-": none).
#   program:NAME  an executable, found where internal/lab/servers finds it
#   python:NAME   a module of /usr/bin/python3
#   jar:NAME      a Java library, found where internal/lab/servers finds it
needs='
program:redis-server     redis-server     redis
python:redis             python3-redis    -
program:etcd             etcd-server      etcd
program:etcdctl          etcd-client      etcd
program:java             default-jre-headless -
program:javac            default-jdk-headless -
jar:zookeeper            zookeeper        -
jar:curator-recipes      libcurator-recipes-java -
program:postgres         postgresql       postgresql
program:mariadbd         mariadb-server   mariadb
program:pgbouncer        pgbouncer        pgbouncer
'

# The same as in internal/lab/servers/find.go.
usual_folders='/usr/bin /usr/sbin /usr/local/bin /usr/local/sbin /opt/homebrew/bin /opt/homebrew/sbin
	/usr/lib/postgresql/*/bin'

is_there() {
	local name=${1#*:} folder
	case $1 in
	program:*)
		command -v "$name" >/dev/null && return 0
		for folder in $usual_folders; do
			if [ -x "$folder/$name" ]; then return 0; fi
		done
		return 1
		;;
	jar:*) [ -f "/usr/share/java/$name.jar" ] ;;
	python:*) /usr/bin/python3 -c "import importlib.util as u, sys; sys.exit(u.find_spec('$name') is None)" 2>/dev/null ;;
	esac
}

missing="" packages="" formulas=""
look() {
	local need package formula
	missing="" packages="" formulas=""
	while read -r need package formula; do
		if [ -z "$need" ] || is_there "$need"; then continue; fi
		missing="$missing ${need#*:}"
		packages="$packages $package"
		[ "$formula" = - ] || formulas="$formulas $formula"
	done <<<"$needs"
}

say() { echo "install-servers: $*" >&2; }

# announce says what will be installed and how to decline. At a terminal it then waits a moment.
announce() {
	say "missing:$missing"
	say "$1 will install:$2"
	say "No services will be started. To decline, run: LOCKPORT_TEST_INSTALL=no make test (tests without their server are skipped)"
	if [ -t 2 ]; then say 'Press Ctrl-C within 5 seconds to cancel.' && sleep 5; fi
}

as_root() {
	if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_be_root() { [ "$(id -u)" -eq 0 ] || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }; }

# Debian's packages ask policy-rc.d before they start or restart a service.
policy=/usr/sbin/policy-rc.d
signature='Written by scripts/install-servers.sh of lockport'
policy_is_ours() { grep -qsF "$signature" "$policy"; }

# deny_starts makes the answer "no" while this script runs. It fails if the machine has its own policy that allows starts: we must not replace that.
deny_starts() {
	if [ -e "$policy" ] && ! policy_is_ours; then
		local answer=0
		"$policy" redis-server start >/dev/null 2>&1 || answer=$?
		[ "$answer" -eq 101 ]
		return
	fi
	trap 'if policy_is_ours; then as_root rm -f "$policy"; fi' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP
	# If this script is killed, the file that it leaves denies nothing.
	as_root tee "$policy" >/dev/null <<-END
		#!/bin/sh
		# $signature, and removed by it. May be deleted.
		[ ! -d /proc/$$ ] || exit 101
	END
	as_root chmod 755 "$policy"
}

boot_services() { find /etc/systemd/system/multi-user.target.wants -type l 2>/dev/null | sed "s,.*/,," | sort; }

apt() {
	as_root env DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1 \
		apt-get -q -y -o DPkg::Lock::Timeout=600 "$@" </dev/null >>"$log" 2>&1
}

install_debian() {
	if ! deny_starts; then
		say "not installing: this machine's $policy lets packages start services"
		return 1
	fi
	local log before added
	log=$(mktemp)
	before=$(boot_services)
	announce apt-get "$packages"
	apt update || true # an old or partial package list may suffice
	# shellcheck disable=SC2086
	if ! apt install --no-install-recommends $packages; then
		say "apt-get failed:"
		# Print its errors without the addresses of package servers.
		sed -n -e 's,[a-z+]*://[^ ]*,(address),g' -e 's/\[IP:[^]]*\]//' -e '/^E: /p' "$log" >&2
		rm -f "$log"
		return 1
	fi
	rm -f "$log"
	added=$(comm -13 <(echo "$before") <(boot_services))
	if [ -n "$added" ] && command -v systemctl >/dev/null; then
		# shellcheck disable=SC2086
		as_root systemctl --quiet disable $added >/dev/null 2>&1 || say "could not disable these services at the next boot: $added"
	fi
}

install_macos() {
	[ -n "$formulas" ] || return 0
	announce Homebrew "$formulas"
	# shellcheck disable=SC2046
	HOMEBREW_NO_AUTO_UPDATE=1 brew install --quiet $(echo "$formulas" | xargs -n1 | sort -u) </dev/null >&2
}

install_missing() {
	[ "${LOCKPORT_TEST_INSTALL:-yes}" != no ] || return 0
	if [ "$(uname)" = Darwin ] && command -v brew >/dev/null; then
		install_macos
	elif command -v apt-get >/dev/null && can_be_root; then
		install_debian
	fi
}

look
if [ -n "$missing" ] && [ "${1:-}" != --check ]; then
	install_missing || true
	look
fi
[ -n "$missing" ] || exit 0
say "missing:$missing"
say "install with apt-get: apt-get install$packages"
[ -z "$formulas" ] || say "install with Homebrew: brew install $(echo "$formulas" | xargs -n1 | sort -u | xargs)"
if [ "${1:-}" = --check ]; then exit 1; fi
case ${LOCKPORT_TEST_REQUIRE:-} in
'') say "tests that need them will be skipped" ;;
*) say "tests that need what LOCKPORT_TEST_REQUIRE=$LOCKPORT_TEST_REQUIRE lists will fail" ;;
esac
