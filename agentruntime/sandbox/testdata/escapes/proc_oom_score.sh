# must not: be spared when memory ends
escaped() { echo "escaped: $*"; }
echo -1000 >/proc/self/oom_score_adj && escaped "oom_score_adj"
echo done
