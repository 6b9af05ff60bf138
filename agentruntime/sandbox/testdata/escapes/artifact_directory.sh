# must not: replace the directory itself
# artifacts:
escaped() { echo "escaped: $*"; }
cd / && rm -rf /artifacts; mv /artifacts /tmp/a && escaped moved
rmdir /artifacts && escaped removed
ln -sfn /usr /artifacts/usr
echo done
