# must not: reach a port of the host
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::1")):
    attempt("connect to " + address, lambda: socket.socket(family).connect((address, int(os.environ["CANARY_PORT"]))))
print("done")
