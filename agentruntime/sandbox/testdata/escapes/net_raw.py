# must not: make packets
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

for family, kind, proto in ((socket.AF_INET, socket.SOCK_RAW, 1), (socket.AF_PACKET, socket.SOCK_RAW, 3), (16, socket.SOCK_RAW, 12), (16, socket.SOCK_RAW, 9), (38, socket.SOCK_SEQPACKET, 0), (31, socket.SOCK_RAW, 1), (29, socket.SOCK_RAW, 1), (30, socket.SOCK_SEQPACKET, 0), (44, socket.SOCK_RAW, 0)):
    attempt("family %d" % family, lambda: socket.socket(family, kind, proto))
print("done")
