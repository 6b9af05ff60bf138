# must not: load a plugin by flags in a source
escaped() { echo "escaped: $*"; }
cat >p.c <<'E'
#include <stdlib.h>
#include <stdio.h>
__attribute__((constructor)) static void f(void) { FILE *x = fopen(getenv("CANARY_FILE"), "w"); if (x) puts("escaped: plugin"); }
E
gcc -shared -fPIC -o p.so p.c
printf 'package main\n// #cgo CFLAGS: -fplugin=./p.so\n// #cgo LDFLAGS: -Wl,-plugin,./p.so\nimport "C"\nfunc main() {}\n' >a.go
command -v go && GO111MODULE=off GOCACHE=${TMPDIR:-/tmp}/c timeout 20 go build a.go
CGO_CFLAGS_ALLOW=.* GO111MODULE=off GOCACHE=${TMPDIR:-/tmp}/c timeout 20 go vet a.go
gcc -fplugin=./p.so -c p.c
LD_PRELOAD=$PWD/p.so true
echo done
