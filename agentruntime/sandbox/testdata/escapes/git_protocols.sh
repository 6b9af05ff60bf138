# must not: run a command that an address names
escaped() { echo "escaped: $*"; }
timeout 5 git clone "ext::sh -c cat% \$CANARY_FILE" a && escaped ext
timeout 5 git -c protocol.ext.allow=always clone "ext::sh -c cat% \$CANARY_FILE% >&2" b 2>&1 | grep -q 'the canary lives' && escaped "ext allowed"
timeout 5 git clone "file://$CANARY_FILE" c && escaped file
timeout 5 git clone "ssh://-oProxyCommand=id/x" d && escaped ssh
timeout 5 git clone --upload-pack='touch /usr/x;' . e && escaped upload-pack
echo done
