# must not: reach anything outside
# net: localhost
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

try: socket.socket().close()
except OSError: raise SystemExit(print("done"))
for address in ("169.254.169.254", "1.1.1.1", "10.0.0.1", "172.17.0.1"):
    s = socket.socket(); s.settimeout(1)
    attempt("connect to " + address, lambda: s.connect((address, 80)))
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    attempt("send to " + address, lambda: u.sendto(b"x", (address, 53)))
attempt("broadcast", lambda: u.sendto(b"x", ("255.255.255.255", 9)))
print("done")
