# must not: read what the machine was started with
escaped() { echo "escaped: $*"; }
for f in cmdline interrupts iomem ioports keys key-users locks modules timer_list vmallocinfo; do
	[ -e "/proc/$f" ] && cat "/proc/$f" && escaped "$f"
	cat <"/proc/self/root/proc/$f" && escaped "$f by another name"
done
echo done
