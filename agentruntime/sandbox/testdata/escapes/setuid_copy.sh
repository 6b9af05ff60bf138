# must not: keep a setuid bit
escaped() { echo "escaped: $*"; }
cp /usr/bin/id a && chmod 6755 a
[ "$(./a -u)" = "$(id -u)" ] || escaped "runs as $(./a -u)"
b=${TMPDIR:-/tmp}/b
cp a "$b" && chmod 6755 "$b"
[ "$("$b" -u)" = "$(id -u)" ] || escaped "runs as $("$b" -u)"
echo done
