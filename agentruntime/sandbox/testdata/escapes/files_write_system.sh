# must not: change a file of the system
escaped() { echo "escaped: $*"; }
for d in / /usr /usr/bin /bin /sbin /lib /etc /dev /proc /artifacts/..; do
	touch "$d/x" && escaped "made $d/x"
	mkdir "$d/y" && escaped "made $d/y"
done
rm -f /usr/bin/env /etc/passwd; [ -e /usr/bin/env ] && [ -e /etc/passwd ] || escaped "removed a file"
mv /usr/bin/env /usr/bin/env2 && escaped "renamed a file"
chmod 777 /usr/bin/env && escaped "changed a mode"
echo x >>/etc/passwd && escaped "wrote to /etc/passwd"
truncate -s 0 /etc/group && escaped "cut /etc/group"
echo done
