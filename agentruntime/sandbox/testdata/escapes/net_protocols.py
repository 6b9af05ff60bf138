# must not: have the kernel load a protocol
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

for family in (socket.AF_INET, socket.AF_INET6):
    for kind in (1, 2, 3, 4, 5, 6, 10):
        for protocol in (0, 1, 2, 6, 17, 33, 58, 103, 115, 132, 136, 256, 262):
            # What everybody uses may be there.
            if kind in (1, 2) and protocol in (0, 1, 6, 17, 58): continue
            attempt("family %d, type %d, protocol %d" % (family, kind, protocol), lambda: socket.socket(family, kind, protocol))
for family in range(256):
    if family not in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK):
        for kind in (1, 2, 3, 5): attempt("family %d" % family, lambda: socket.socket(family, kind, 0))
print("done")
