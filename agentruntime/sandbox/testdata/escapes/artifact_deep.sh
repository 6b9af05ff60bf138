# must not: give out a path without end
# artifacts:
escaped() { echo "escaped: $*"; }
cd "$LIGHTWORK_ARTIFACTS"; i=0; while [ $i -lt 100 ]; do mkdir -p aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa && cd aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa; i=$((i+1)); done; echo x >deep
echo done
