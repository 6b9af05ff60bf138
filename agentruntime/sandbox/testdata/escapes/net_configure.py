# must not: configure its network
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

import fcntl, struct, sys
try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()
except OSError: sys.exit(print("done"))
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
attempt("raise lo", lambda: fcntl.ioctl(s, 0x8914, struct.pack("16sh14x", b"lo", 1)))
attempt("set an address", lambda: fcntl.ioctl(s, 0x8916, struct.pack("16sHH4s8x", b"lo", 2, 0, b"\x0a\0\0\1")))
n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
n.send(struct.pack("=IHHIIBBHiII", 32, 16, 0x605, 1, 0, 0, 0, 0, 0, 0, 0))
if struct.unpack("=i", n.recv(4096)[16:20])[0] == 0: escaped("new link")
print("done")
