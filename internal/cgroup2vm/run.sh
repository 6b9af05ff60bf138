#!/usr/bin/env bash
# Runs tests on a kernel whose cgroups are those of version 2, whatever this
# machine has: Debian's own kernel in QEMU, with this machine's files, which it
# can read and not change. Everything is emulated, so a test takes ten times as
# long as elsewhere. Then it boots systemd there, for an ordinary user who has to ask
# it for what full confinement needs.
#
#	run.sh DIR TESTS    DIR keeps the kernel; TESTS as in go test -run
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
repo=$(cd "$here/../.." && pwd)
work=$(mkdir -p "$1" && cd "$1" && pwd)
tests=$2
# Packages whose tests make cgroups.
packages=(agentruntime/cgroup agentruntime/sandbox agentruntime/supervisor)

tools=()
command -v qemu-system-x86_64 >/dev/null || tools+=(qemu-system-x86)
dpkg -s busybox-static >/dev/null 2>&1 || tools+=(busybox-static)
[ -x /lib/systemd/systemd ] || tools+=(systemd)
command -v dbus-daemon >/dev/null || tools+=(dbus)
if ((${#tools[@]})); then
	apt-get update -q && apt-get install -qy --no-install-recommends "${tools[@]}"
fi

# The kernel is unpacked and not installed: this machine keeps its own.
if ! [ -e "$work/root/vmlinuz" ]; then
	package=$(apt-cache depends linux-image-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
	rm -rf "$work/root" "$work/package"
	mkdir -p "$work/root/modules" "$work/package"
	(cd "$work/package" && apt-get download -q "$package" && dpkg -x ./*.deb .)
	# In the order in which they need each other.
	for module in virtio_ring virtio virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p overlay; do
		printf -v number "%02d" "$((n = ${n:-0} + 1))"
		find "$work/package/lib/modules" -name "$module.ko" -exec cp {} "$work/root/modules/$number-$module.ko" \;
	done
	cp "$work"/package/boot/vmlinuz-* "$work/vmlinuz.new"
	rm -rf "$work/package"
	mv "$work/vmlinuz.new" "$work/root/vmlinuz"
fi

rm -rf "$work/initramfs" "$work/tests"
mkdir -p "$work/initramfs/bin" "$work/tests"
cp /bin/busybox "$work/initramfs/bin/"
cp -r "$work/root/modules" "$work/initramfs/"
cp "$here/init.sh" "$work/initramfs/init"
(cd "$repo" && ${GO:-go} build -tags "${TAGS:-}" -o "$work/tests/" ./cmd/lightwork)
(cd "$work/initramfs" && find . | busybox cpio -o -H newc 2>/dev/null) >"$work/initramfs.cpio"
for p in "${packages[@]}"; do
	(cd "$repo" && ${GO:-go} test -tags "${TAGS:-}" -c -o "$work/tests/${p//\//.}.test" "./$p")
done

# boot SCRIPT SECONDS runs a script of this folder as process 1, after init.sh.
boot() {
	# All in software: a /dev/kvm may be there, as in a rented machine, and not work.
	# The console is all that comes out; the last line says how it ended.
	timeout "$2" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 3072 -nographic -no-reboot -nic none \
		-kernel "$work/root/vmlinuz" -initrd "$work/initramfs.cpio" \
		-append "console=ttyS0 quiet panic=-1 init_run=$tests init_tests=$work/tests init_repo=$repo init_script=$here/$1 init_path=$PATH" \
		-virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap </dev/null | tee "$work/console.log"
	grep -q "^cgroup2vm: passed" "$work/console.log"
}

set +e
boot tests.sh 3600 && boot systemd.sh 900
