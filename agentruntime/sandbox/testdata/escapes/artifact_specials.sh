# must not: give out what is no file
# artifacts:
escaped() { echo "escaped: $*"; }
cd "$LIGHTWORK_ARTIFACTS" && mkfifo a && mknod b p && mknod c c 1 3
python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("s")'
echo done
