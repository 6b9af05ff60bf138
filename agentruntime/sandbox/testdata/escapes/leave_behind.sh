# must not: live on after its command
escaped() { echo "escaped: $*"; }
(setsid sh -c 'while :; do sleep 0.01; echo "$CANARY_MARK" >/dev/null; done' >/dev/null 2>&1 &)
(nohup sleep "$CANARY_MARK" >/dev/null 2>&1 &)
python3 -c 'import os
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: os.execvp("sleep", ["sleep", os.environ["CANARY_MARK"]])'
echo done
