# must not: change a file while it is given out
import os, socket
ARTIFACTS = os.environ["LIGHTWORK_ARTIFACTS"]

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

import sys
if os.fork() == 0:
    os.setsid()
    while True:
        for make in (lambda: open(ARTIFACTS + "/n", "w").close(), lambda: os.symlink(os.environ["CANARY_FILE"], ARTIFACTS + "/n")):
            try: os.unlink(ARTIFACTS + "/n")
            except OSError: pass
            try: make(); os.rename(ARTIFACTS + "/n", ARTIFACTS + "/x")
            except OSError: pass
import time; time.sleep(0.1)
print("done")
