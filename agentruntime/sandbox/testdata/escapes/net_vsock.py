# must not: reach the machine's host
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

for cid in (0, 1, 2, 3):
    attempt("vsock %d" % cid, lambda: socket.socket(40, socket.SOCK_STREAM).connect((cid, 1024)))
print("done")
