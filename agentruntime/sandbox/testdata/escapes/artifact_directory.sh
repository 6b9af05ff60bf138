# must not: replace the directory itself
# artifacts:
escaped() { echo "escaped: $*"; }
cd / && rm -rf "$LIGHTWORK_ARTIFACTS"; mv "$LIGHTWORK_ARTIFACTS" "${TMPDIR:-/tmp}"/a && escaped moved
rmdir "$LIGHTWORK_ARTIFACTS" && escaped removed
ln -sfn /usr "$LIGHTWORK_ARTIFACTS"/usr
echo done
