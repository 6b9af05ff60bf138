# must not: give out more than is there
# limit: artifact_limit
escaped() { echo "escaped: $*"; }
truncate -s 1T "$LIGHTWORK_ARTIFACTS"/big || truncate -s 8G "$LIGHTWORK_ARTIFACTS"/big
echo done
