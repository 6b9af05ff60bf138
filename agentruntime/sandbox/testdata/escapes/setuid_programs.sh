# must not: become root by a setuid program
escaped() { echo "escaped: $*"; }
for p in 'su root -c id' 'sudo -n id' 'pkexec id' 'doas id' 'newgrp root' 'ping -c1 127.0.0.1' 'fusermount -V'; do
	$p 2>/dev/null </dev/null | grep -q 'uid=0' && escaped "$p"
done
grep -q '^NoNewPrivs:.*1' /proc/self/status || escaped "no_new_privs is off"
echo done
