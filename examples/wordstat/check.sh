#!/bin/sh
# Runs the tests and prints TAP. Exit 0 only if every one passed.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")"

tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
count=0
failed=0

result() { # passed? name
	count=$((count + 1))
	if [ "$1" = yes ]; then
		echo "ok $count - $2"
	else
		echo "not ok $count - $2"
		failed=$((failed + 1))
	fi
}

same() { # name want got
	if [ "$2" = "$3" ]; then
		result yes "$1"
	else
		result no "$1"
		printf '%s\n' "$2" >"$tmp/want"
		printf '%s\n' "$3" >"$tmp/got"
		diff "$tmp/want" "$tmp/got" | sed 's/^/# /'
	fi
}

fails() { # name status command...
	name=$1 want=$2 got=0
	shift 2
	"$@" >/dev/null 2>&1 || got=$?
	same "$name fails with $want" "$want" "$got"
}

report() {
	for f in data/*.txt; do
		echo "== $f"
		bin/wordstat summary "$f"
		echo "-- top"
		bin/wordstat top 5 "$f"
		echo "-- lengths"
		bin/wordstat hist "$f"
	done
}

. tests/unit.sh
report >"$tmp/report.txt"
same "report is as recorded" "$(cat tests/expected.txt)" "$(cat "$tmp/report.txt")"
if [ -n "${LIGHTWORK_ARTIFACTS:-}" ]; then
	cp "$tmp/report.txt" "$LIGHTWORK_ARTIFACTS/report.txt"
fi

echo "1..$count"
if [ "$failed" -ne 0 ]; then
	echo "# $failed of $count failed"
	exit 1
fi
echo "# all $count passed"
