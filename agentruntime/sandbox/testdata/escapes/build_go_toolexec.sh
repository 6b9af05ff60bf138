# must not: run a compiler wrapper outside
escaped() { echo "escaped: $*"; }
printf 'package main\nfunc main() {}\n' >a.go
printf '#!/bin/sh\ncat "$CANARY_FILE" && echo escaped: read\necho pwned >"$CANARY_FILE" && echo escaped: wrote\nexit 1\n' >wrap && chmod +x wrap
command -v go && GO111MODULE=off GOCACHE=${TMPDIR:-/tmp}/c go build -toolexec="$PWD/wrap" a.go
echo done
