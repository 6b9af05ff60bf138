# must not: keep a setuid bit
escaped() { echo "escaped: $*"; }
cp /usr/bin/id a && chmod 6755 a
./a -u | grep -qx 65534 || escaped "runs as $(./a -u)"
cp a /tmp/b && chmod 6755 /tmp/b && /tmp/b -u | grep -qx 65534 || escaped "runs as $(/tmp/b -u)"
echo done
