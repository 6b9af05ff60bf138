# must not: reach a socket of the host by one of a pair
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

file = os.environ["CANARY_SOCKET"]
for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM, socket.SOCK_SEQPACKET):
    for address in (file + ".sock", "\0" + file):
        a, b = socket.socketpair(socket.AF_UNIX, kind)
        attempt("connect", lambda: a.connect(address))
        if kind == socket.SOCK_DGRAM:
            attempt("sendto", lambda: a.sendto(b"x", address))
            attempt("sendmsg", lambda: a.sendmsg([b"x"], [], 0, address))
print("done")
