# must not: end who watches over the job
import os, signal, time

def escaped(what): print("escaped:", what, flush=True)

import ctypes
libc = ctypes.CDLL(None, use_errno=True)
r, w = os.pipe()
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0: # an orphan soon, whose parent is then process 1 or who stands in for it
        while os.getppid() == parent: time.sleep(0.01)
        keeper = os.getppid()
        for s in (signal.SIGKILL, signal.SIGSTOP):
            libc.syscall(62, keeper, s)
            if keeper > 1: libc.syscall(62, -keeper, s) # -1 is everybody, who would be the job itself
            libc.syscall(200, keeper, s)
            libc.syscall(234, keeper, keeper, s)
        libc.syscall(424, libc.syscall(434, keeper, 0), signal.SIGKILL, None, 0)
        os.write(w, b"y")
    os._exit(0)
os.close(w)
said = b""
while True:
    piece = os.read(r, 1)
    if not piece: break
    said += piece
if b"y" not in said: escaped("the orphan was lost")
print("done")
