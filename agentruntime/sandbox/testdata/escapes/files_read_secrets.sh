# must not: read what the host keeps to itself
# landlock lets: .* is there
escaped() { echo "escaped: $*"; }
for f in /etc/shadow /etc/gshadow /etc/sudoers /etc/machine-id /etc/ssh /root /home /var/log /run /boot /opt /srv /mnt; do
	[ -e "$f" ] && escaped "$f is there"
done
cat "$CANARY_FILE" && escaped "read the canary"
echo done
