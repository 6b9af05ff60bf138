# must not: give out more than is there
# limit: artifact_limit
escaped() { echo "escaped: $*"; }
truncate -s 1T /artifacts/big || truncate -s 8G /artifacts/big
echo done
