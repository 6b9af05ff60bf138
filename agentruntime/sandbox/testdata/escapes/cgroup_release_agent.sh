# must not: mount cgroups and leave by release_agent
escaped() { echo "escaped: $*"; }
mkdir -p /tmp/cg
mount -t cgroup -o rdma cgroup /tmp/cg && escaped "mounted v1"
mount -t cgroup2 none /tmp/cg && escaped "mounted v2"
[ -e /tmp/cg/release_agent ] && echo /tmp/x >/tmp/cg/release_agent && escaped "release_agent"
echo done
