# must not: end process 1
# note: of the same user a signal arrives, and does nothing
escaped() { echo "escaped: $*"; }
for s in TERM INT HUP QUIT USR1 SEGV ABRT STOP KILL; do kill -$s 1 && [ "$CANARY_SPLIT" ] && escaped "$s"; done
sleep 0.05
echo done
