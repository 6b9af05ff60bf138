# must not: see a process outside
escaped() { echo "escaped: $*"; }
for p in /proc/[0-9]*; do
	case $(tr '\0' ' ' <"$p/cmdline") in *sandbox.test*|*systemd*|*sshd*) escaped "$p";; esac
done
[ -e "/proc/$CANARY_PID/environ" ] && tr '\0' '\n' <"/proc/$CANARY_PID/environ" | grep CANARY && escaped "environment of the host"
echo done
