# must not: have the kernel run something
escaped() { echo "escaped: $*"; }
echo '|/tmp/x' >/proc/sys/kernel/core_pattern && escaped "core_pattern"
echo /tmp/x >/proc/sys/kernel/modprobe && escaped "modprobe"
echo /tmp/x >/proc/sys/kernel/hotplug && escaped "hotplug"
echo ':x:M::x::/tmp/x:' >/proc/sys/fs/binfmt_misc/register && escaped "binfmt_misc"
echo /tmp/x >/proc/sys/kernel/poweroff_cmd && escaped "poweroff_cmd"
echo done
