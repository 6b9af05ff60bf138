#!/bin/bash
# Boots systemd, as process 1, and has an ordinary user whose session it runs buy the
# demo's job outside of any group that is the user's to divide.
export PATH=$init_path
user=54321

mkdir -p /run/systemd/system /run/bin /run/home
cp "$init_tests"/lightwork "$init_tests"/lightwork-verify /run/bin/
chown $user:$user /run/home
echo "lightwork:x:$user:$user::/run/home:/bin/bash" >>/etc/passwd
echo "lightwork:x:$user:" >>/etc/group

# The machine is whole: nothing is mounted, and no hardware looked for.
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-udev-settle.service systemd-modules-load.service systemd-remount-fs.service \
	systemd-firstboot.service systemd-timesyncd.service systemd-random-seed.service systemd-networkd.service systemd-resolved.service networking.service; do
	ln -sf /dev/null /run/systemd/system/$unit
done
: >/etc/fstab

cat >/run/systemd/system/buys.service <<-EOF
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
	ExecStart=/bin/bash $init_repo/internal/cgroup2vm/session.sh
	StandardOutput=tty
	StandardError=inherit
	TTYPath=/dev/ttyS0
EOF
exec /lib/systemd/systemd --unit=buys.service --show-status=false
