# must not: link a file of the host
escaped() { echo "escaped: $*"; }
ln "$CANARY_FILE" a && escaped "linked the canary"
ln /usr/bin/env b && escaped "linked a system file"
ln /etc/passwd c && escaped "linked /etc/passwd"
echo done
