# must not: read the kernel
escaped() { echo "escaped: $*"; }
head -c 16 /proc/kcore | grep -q . && escaped "kcore"
timeout 1 head -c 16 /proc/kmsg | grep -q . && escaped "kmsg"
grep -qv '^0000000000000000' /proc/kallsyms && escaped "kallsyms"
dmesg | grep -q . && escaped "dmesg"
echo done
