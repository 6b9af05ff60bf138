# must not: run an install script outside
escaped() { echo "escaped: $*"; }
printf '{"name":"x","version":"1.0.0","scripts":{"preinstall":"echo pwned >$CANARY_FILE && echo escaped"}}' >package.json
command -v npm && timeout 20 npm install --offline --no-audit --no-fund
echo done
