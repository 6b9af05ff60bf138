# must not: make or find a device
# landlock lets: /dev/.*
escaped() { echo "escaped: $*"; }
for d in 'sda b 8 0' 'vda b 254 0' 'mem c 1 1' 'kmsg c 1 11' 'fuse c 10 229' 'kvm c 10 232' 'tun c 10 200'; do
	set -- $d
	for at in . /tmp /artifacts /dev/shm; do
		mknod "$at/$1" $2 $3 $4 && escaped "made $at/$1"
	done
done
for d in mem kmem port kmsg sda vda nvme0n1 kvm fuse net/tun vsock vhost-net ptmx tty console tty0 hpet rtc0 uinput snapshot; do
	[ -e "/dev/$d" ] && escaped "/dev/$d"
done
echo done
