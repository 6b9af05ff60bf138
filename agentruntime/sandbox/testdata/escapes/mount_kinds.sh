# must not: mount something
escaped() { echo "escaped: $*"; }
mkdir -p /tmp/m
mount -t tmpfs none /tmp/m && escaped tmpfs
mount -t proc none /tmp/m && escaped proc
mount -t sysfs none /tmp/m && escaped sysfs
mount -t devtmpfs none /tmp/m && escaped devtmpfs
mount -t overlay -o lowerdir=/usr,upperdir=/tmp,workdir=/tmp none /tmp/m && escaped overlay
mount --bind /usr /tmp/m && escaped bind
mount -o remount,rw /usr && escaped "remount /usr"
mount -o remount,rw / && escaped "remount /"
mount -o remount,suid,dev /tmp && escaped "remount /tmp"
mount --make-rshared / && escaped propagation
umount /proc && escaped "umount /proc"
umount -l /usr && escaped "umount /usr"
echo done
