#!/bin/bash
# Runs as an ordinary user under systemd: the demo asks the user's systemd for a scope,
# so that its job is confined fully.
set -e
echo "== as $(id -un), in $(cat /proc/self/cgroup)"
/run/bin/lightwork demo --log-level info
/run/bin/lightwork -c lightwork-demo/lightwork.yaml doctor | grep sandbox
echo "cgroup2vm: passed"
