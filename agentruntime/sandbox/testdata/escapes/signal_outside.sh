# must not: signal a process outside
escaped() { echo "escaped: $*"; }
kill -0 "$CANARY_PID" && escaped "the host's process is there"
kill -KILL "$CANARY_PID" && escaped "killed it"
kill -KILL -- "-$CANARY_PID" && escaped "killed its group"
echo done
