#!/bin/sh
# Makes module.wasm of module.wat, and notes in module.sum which text the
# binary was made of. Needs npx; the assembler is pinned.
set -eu
cd "$(dirname "$0")"
npx --yes --package=wabt@1.0.39 wat2wasm module.wat -o module.wasm
sha256sum module.wat module.wasm > module.sum
