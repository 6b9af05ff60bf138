# must not: reach anything outside
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

try: socket.socket().close()
except OSError: raise SystemExit(print("done"))
for address in ("169.254.169.254", "1.1.1.1", "10.0.0.1", "172.17.0.1", "192.168.0.1"):
    s = socket.socket(); s.settimeout(1)
    attempt("connect to " + address, lambda: s.connect((address, 80)))
    u = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    attempt("send to " + address, lambda: u.sendto(b"x", (address, 53)))
attempt("resolve", lambda: socket.getaddrinfo("example.com", 80))
print("done")
