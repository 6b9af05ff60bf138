# must not: reach shared memory of the host
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

import ctypes
libc = ctypes.CDLL(None, use_errno=True)
if libc.shmget(int(os.environ["CANARY_KEY"]), 0, 0) >= 0: escaped("shared memory")
try: listed = open("/proc/sysvipc/shm").readlines()
except OSError: listed = []
if len(listed) > 1: escaped("list of shared memory")
print("done")
