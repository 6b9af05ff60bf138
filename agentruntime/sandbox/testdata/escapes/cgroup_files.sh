# must not: raise an own limit
# landlock lets: /sys is there
escaped() { echo "escaped: $*"; }
[ -e /sys ] && escaped "/sys is there"
find / -xdev -name 'release_agent' -o -xdev -name 'memory.max' -o -xdev -name 'memory.limit_in_bytes' 2>/dev/null | grep . && escaped "cgroup files"
echo done
