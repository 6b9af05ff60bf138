#!/bin/bash
# Runs as an ordinary user under systemd: no group is the user's to divide, until the
# user's systemd is asked for one.
export PATH=/run/bin:$PATH
echo "== as $(id -un), in $(cat /proc/self/cgroup)"
lightwork init --role provider --wallet none >/dev/null
alone=$(env -u XDG_RUNTIME_DIR lightwork doctor)
asked=$(lightwork doctor)
echo "$asked" | grep sandbox
grep -q "confinement: level full" <<<"$asked" && ! grep -q "confinement: level full" <<<"$alone" && echo "cgroup2vm: passed" || { echo "$alone"; echo "cgroup2vm: failed"; }
