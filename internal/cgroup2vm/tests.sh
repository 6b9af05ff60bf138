#!/bin/bash
# Runs the tests inside, as process 1, in each place where a node may be.
export PATH=$init_path HOME=/run/tests TMPDIR=/run/tests
cgroups=/sys/fs/cgroup
failed=

# run PLACE COMMAND... runs the tests in a group, by a command that becomes them.
run() {
	local place=$1
	shift
	for file in /run/bin/*.test; do
		local name
		name=$(basename "$file" .test)
		echo "== $name in the group /$place${1:+, by $*}"
		(
			echo $BASHPID >"$cgroups/$place/cgroup.procs"
			cd "$init_repo/${name//.//}" && exec "$@" "$file" -test.timeout 20m -test.run "$init_run"
		) </dev/null || failed="$failed $name"
	done
}

mkdir -m 1777 "$TMPDIR"
# Where everybody may start them, and the agents that are the same program:
# $init_tests may be in a home that is root's alone.
mkdir /run/bin
cp "$init_tests"/*.test /run/bin/
uname -r
# As a service of root is: its group has processes and divides nothing, the one
# above does.
mkdir -p "$cgroups/system.slice/node.service"
run system.slice/node.service
# As Delegate=yes and DelegateSubgroup= leave it to a service's user, who is told
# to skip nothing.
delegated=$cgroups/system.slice/delegated.service
mkdir -p "$delegated/node"
for file in "" cgroup.procs cgroup.subtree_control node node/cgroup.procs; do
	chown 54321:54321 "$delegated/$file"
done
echo "+memory +pids +cpu" >"$cgroups/cgroup.subtree_control"
echo "+memory +pids +cpu" >"$cgroups/system.slice/cgroup.subtree_control"
run system.slice/delegated.service/node env LIGHTWORK_TEST_UNPRIVILEGED=1 setpriv --reuid 54321 --regid 54321 --clear-groups
# Nothing is left of either.
left=$(find "$cgroups" -name 'lightwork-*')
[ -z "$left" ] || failed="$failed $left"

[ -z "$failed" ] && echo "cgroup2vm: passed" || echo "cgroup2vm: failed:$failed"
sync
exec /bin/busybox poweroff -f
