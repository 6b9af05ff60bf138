# must not: take another id by a map
# landlock lets: is uid=.*
escaped() { echo "escaped: $*"; }
echo '0 0 1' >/proc/self/uid_map && escaped uid_map
echo '0 0 1' >/proc/self/gid_map && escaped gid_map
echo allow >/proc/self/setgroups && escaped setgroups
[ "$(id -u)" = 65534 ] || escaped "is $(id)"
echo done
