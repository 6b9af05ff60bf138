# must not: give out too many
# limit: artifact_limit
escaped() { echo "escaped: $*"; }
i=0; while [ $i -lt 300 ]; do echo $i >"$LIGHTWORK_ARTIFACTS"/f$i; i=$((i+1)); done
echo done
