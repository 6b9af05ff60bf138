# must not: run code of a package outside
escaped() { echo "escaped: $*"; }
mkdir lib && cat >lib/sitecustomize.py <<'E'
import os
try: open(os.environ["CANARY_FILE"], "w"); print("escaped: sitecustomize")
except OSError: pass
E
PYTHONPATH=$PWD/lib python3 -c 'print("ran")'
echo x >/usr/lib/python3/x.pth && escaped "wrote a .pth file"
echo done
