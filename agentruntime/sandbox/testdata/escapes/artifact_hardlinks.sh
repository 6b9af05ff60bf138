# must not: give out a file with two names
# artifacts: one
escaped() { echo "escaped: $*"; }
cd "$LIGHTWORK_ARTIFACTS" && echo x >"${TMPDIR:-/tmp}"/t && echo x >a && ln a b && ln a ../workspace/c
ln /usr/bin/env d && escaped "linked a system file"
echo y >one
echo done
