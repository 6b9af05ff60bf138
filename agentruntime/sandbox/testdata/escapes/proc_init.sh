# must not: look into process 1
escaped() { echo "escaped: $*"; }
for f in environ cmdline maps status stat; do
	[ -s "/proc/1/$f" ] && escaped "read /proc/1/$f"
done
for f in root cwd fd ns map_files task; do
	ls "/proc/1/$f/" && escaped "listed /proc/1/$f"
done
ls /proc | grep -qx 1 && escaped "process 1 is listed"
echo done
