#!/bin/bash
# Boots systemd, as process 1, and runs session.sh as an ordinary user whose manager
# systemd has started, in a group that is not the user's to divide.
export PATH=$init_path
user=54321

mkdir -p /run/systemd/system /run/bin /run/home
cp "$init_tests/lightwork" "$init_repo/internal/cgroup2vm/session.sh" /run/bin/
chown $user:$user /run/home
echo "lightwork:x:$user:$user::/run/home:/bin/bash" >>/etc/passwd
echo "lightwork:x:$user:" >>/etc/group

# The machine is whole: nothing is mounted, and no hardware looked for.
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-udev-settle.service systemd-modules-load.service systemd-remount-fs.service \
	systemd-firstboot.service systemd-timesyncd.service systemd-random-seed.service systemd-networkd.service systemd-resolved.service networking.service \
	systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-binfmt.service proc-sys-fs-binfmt_misc.automount systemd-journal-flush.service systemd-sysctl.service \
	systemd-sysusers.service systemd-tmpfiles-setup-dev.service systemd-tmpfiles-setup.service sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-fs-fuse-connections.mount dev-hugepages.mount dev-mqueue.mount; do
	ln -sf /dev/null /run/systemd/system/$unit
done
: >/etc/fstab
rm -f /.dockerenv

# As for a session, without the modules of PAM that want more of a machine.
mkdir /run/systemd/system/user@$user.service.d
cat >/run/systemd/system/user@$user.service.d/session.conf <<-EOF
	[Service]
	PAMName=
	Environment=XDG_RUNTIME_DIR=/run/user/$user
EOF

cat >/run/systemd/system/session.service <<-EOF
	[Unit]
	Wants=dbus.service systemd-logind.service
	After=dbus.service systemd-logind.service user@$user.service
	Requires=user@$user.service
	SuccessAction=poweroff-immediate
	FailureAction=poweroff-immediate
	[Service]
	Type=oneshot
	User=$user
	WorkingDirectory=/run/home
	Environment=HOME=/run/home TMPDIR=/run/home PATH=$PATH XDG_RUNTIME_DIR=/run/user/$user
	ExecStart=/bin/bash /run/bin/session.sh
	StandardOutput=tty
	StandardError=inherit
	TTYPath=/dev/ttyS0
EOF
exec /lib/systemd/systemd --unit=session.service --show-status=false
