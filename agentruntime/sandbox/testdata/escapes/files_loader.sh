# must not: change what programs load
escaped() { echo "escaped: $*"; }
echo /tmp/evil.so >/etc/ld.so.preload && escaped "wrote ld.so.preload"
cp /etc/ld.so.cache /tmp/c && cp /tmp/c /etc/ld.so.cache && escaped "replaced ld.so.cache"
mv /etc/alternatives /etc/other && escaped "moved alternatives"
echo done
