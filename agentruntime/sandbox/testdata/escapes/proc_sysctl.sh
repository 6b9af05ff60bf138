# must not: change a setting of the machine
escaped() { echo "escaped: $*"; }
for f in kernel/hostname kernel/domainname kernel/panic vm/overcommit_memory vm/drop_caches fs/protected_symlinks net/ipv4/ip_forward user/max_user_namespaces kernel/randomize_va_space; do
	[ -e "/proc/sys/$f" ] && cat "/proc/sys/$f" >/tmp/v && cat /tmp/v >"/proc/sys/$f" && escaped "$f"
done
echo done
