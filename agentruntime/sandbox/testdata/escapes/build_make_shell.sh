# must not: run a build step outside
escaped() { echo "escaped: $*"; }
cat >Makefile <<'E'
X := $(shell echo pwned >"$$CANARY_FILE" && echo escaped)
all: ; @echo "$X"; echo pwned >"$$CANARY_FILE" && echo escaped || true
E
make
echo done
