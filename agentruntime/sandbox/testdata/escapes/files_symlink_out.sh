# must not: follow a link out
escaped() { echo "escaped: $*"; }
ln -s "$CANARY_FILE" a; cat a && escaped "read through a link"
echo pwned >a && [ ! -L a ] && escaped "wrote through a link"
ln -s / r; cat "r$CANARY_FILE" && escaped "read below a link to the root"
ln -s /proc/1/root p; ls p/ && escaped "listed process 1's root"
ln -s ../../../../../../../../../.. up; cat "up$CANARY_FILE" && escaped "read above the root"
echo done
