# must not: give a program capabilities
escaped() { echo "escaped: $*"; }
cp /usr/bin/id a
setcap cap_sys_admin+ep a && escaped setcap
echo done
