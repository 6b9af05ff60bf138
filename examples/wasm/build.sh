#!/bin/sh
# Makes the module.wasm beside each module.wat, and notes in module.sum which text the
# binary was made of. Needs npx; the assembler is pinned.
set -eu
cd "$(dirname "$0")"
for text in */module.wat; do
	(
		cd "${text%/*}"
		npx --yes --package=wabt@1.0.39 wat2wasm module.wat -o module.wasm
		sha256sum module.wat module.wasm > module.sum
	)
done
