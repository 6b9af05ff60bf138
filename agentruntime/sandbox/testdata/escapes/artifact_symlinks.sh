# must not: give out a file by a link
# artifacts:
escaped() { echo "escaped: $*"; }
cd "$LIGHTWORK_ARTIFACTS" && ln -s /etc/passwd a && ln -s "$CANARY_FILE" b && ln -s / c && ln -s /proc/self d && ln -s ../usr/bin/env e
mkdir f && ln -s .. f/up
echo done
