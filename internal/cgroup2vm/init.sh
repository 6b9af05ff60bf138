#!/bin/busybox sh
# Process 1 of the machine: this machine's files below, memory above, cgroups of
# version 2 only; then the tests.
/bin/busybox --install -s /bin
export PATH=/bin
end() {
	sync
	poweroff -f
}
mkdir -p /proc /sys /dev /host /upper /root
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in /modules/*.ko; do
	insmod "$module" || end
done
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=loose,ro host /host || end
mount -t tmpfs tmpfs /upper || end
mkdir /upper/files /upper/work
mount -t overlay -o lowerdir=/host,upperdir=/upper/files,workdir=/upper/work root /root || end
for dir in proc sys dev; do
	mount -o move /$dir /root/$dir
done
mount -t tmpfs -o mode=1777 tmpfs /root/dev/shm 2>/dev/null || { mkdir -m 1777 /root/dev/shm; mount -t tmpfs -o mode=1777 tmpfs /root/dev/shm; }
mount -t cgroup2 cgroup /root/sys/fs/cgroup || end
set -f
for word in $(cat /root/proc/cmdline); do
	case $word in init_*) export "$word" ;; esac
done
mount -t tmpfs -o mode=1777 tmpfs /root/run
ip link set lo up
exec switch_root /root /bin/bash "$init_script"
