# must not: find a device besides the harmless
# landlock lets: 0 devices
escaped() { echo "escaped: $*"; }
n=0
for f in /dev/* /dev/.* /dev/shm/* /tmp/* /workspace/* /artifacts/*; do
	[ -L "$f" ] && continue
	[ -b "$f" ] && escaped "$f"
	[ -c "$f" ] || continue
	n=$((n+1))
	case $f in /dev/null|/dev/zero|/dev/full|/dev/random|/dev/urandom) ;; *) escaped "$f";; esac
done
[ $n = 5 ] || escaped "$n devices"
find / -xdev \( -type b -o -type c \) 2>/dev/null | grep . && escaped "a device in the root"
echo done
