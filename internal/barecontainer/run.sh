#!/usr/bin/env bash
# Runs the demo and the tests of what confines as an ordinary user, and as root and
# a user in a container that may make no namespaces and change no control groups; and
# the demo alone where there is no Landlock either.
set -euo pipefail
cd "$(dirname "$0")/../.."
user=54321 # nobody's account
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"

# What such a user can read: programs, and what their tests read of this tree.
mkdir "$work/bin" "$work/tree"
cp bin/lightwork bin/lightwork-verify "$work/bin/"
"${GO:-go}" build -o "$work/bin/barecontainer" ./internal/barecontainer
packages=(agentruntime/cgroup agentruntime/internal/watchdog agentruntime/supervisor agentruntime/sandbox)
for p in "${packages[@]}"; do
	"${GO:-go}" test -tags "${TAGS:-}" -c -o "$work/bin/${p##*/}.test" "./$p"
done
cp -r --parents go.mod docs examples agentruntime "$work/tree/"
chmod -R a+rX "$work"

ordinary=(setpriv --reuid=$user --regid=$user --clear-groups)
container=("$work/bin/barecontainer")
container_user=("$work/bin/barecontainer" -user $user)
nothing=("$work/bin/barecontainer" -user $user -no-landlock)

# demo NAME FOLDER runs the demo as NAME is.
demo() {
	local -n who=$1
	echo "== $1: the demo"
	(cd "$2" && env -i HOME="$2" TMPDIR="$2" PATH="$PATH" "${who[@]}" "$work/bin/lightwork" demo) >"$2/said" 2>&1 ||
		{ cat "$2/said"; return 1; }
	grep -E "confinement level|its tool is WebAssembly" "$2/said"
	grep "A paid job, proved" "$2/said"
}

# new_home makes a folder for whoever it is.
new_home() {
	local home
	home=$(mktemp -d "$work/home.XXXX")
	chmod 777 "$home"
	echo "$home"
}

# play NAME TESTS runs the demo, and the tests, as NAME is.
play() {
	local -n as=$1
	local name=$1 tests=$2 home
	home=$(new_home)
	demo "$name" "$home"
	echo "== $name: who only buys needs no sandbox"
	(cd "$home" && env -i HOME="$home" PATH="$PATH" "${as[@]}" "$work/bin/lightwork" init --dir buys --role buyer --wallet none >/dev/null &&
		{ env -i HOME="$home" PATH="$PATH" "${as[@]}" "$work/bin/lightwork" -c buys/lightwork.yaml doctor || true; }) >"$home/doctor" 2>&1
	if ! grep -q '^ok *sandbox\|^warn *sandbox' "$home/doctor" || grep '^fail *sandbox' "$home/doctor"; then
		cat "$home/doctor"
		return 1
	fi
	for p in "${packages[@]}"; do
		local select=.
		[ "${p##*/}" != sandbox ] || select=$tests
		echo "== $name: $p"
		(cd "$work/tree/$p" && env -i HOME="$home" TMPDIR="$home" PATH="$PATH" LIGHTWORK_TEST_REPORT="${LIGHTWORK_TEST_REPORT:-}" \
			"${as[@]}" "$work/bin/${p##*/}.test" -test.timeout 10m -test.run "$select")
	done
}

[ -z "${LIGHTWORK_TEST_REPORT:-}" ] || chmod 666 "$LIGHTWORK_TEST_REPORT"
play ordinary .
play container 'TestCheck|TestEscapes|Kills|TestDeathOf|TestLimits'
play container_user 'TestCheck|TestEscapes|Kills|TestDeathOf|TestLimits'
demo nothing "$(new_home)"
