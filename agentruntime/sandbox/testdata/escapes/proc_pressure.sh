# must not: find where on the host it runs
# landlock lets: the host name shows
escaped() { echo "escaped: $*"; }
grep -q lightwork /proc/self/cgroup && escaped "the cgroup's name shows"
hostname | grep -qx sandbox || escaped "the host name shows"
grep -E ' /(root|home)' /proc/self/mountinfo && escaped "a host path shows"
echo done
