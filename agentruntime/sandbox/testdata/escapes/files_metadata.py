# must not: change what a file outside is called, or how it may be used
import os, socket

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

import ctypes
libc = ctypes.CDLL(None, use_errno=True)
file = os.environ["CANARY_FILE"]
attempt("mode", lambda: os.chmod(file, 0o600))
attempt("times", lambda: os.utime(file, (1, 1)))
attempt("attribute", lambda: os.setxattr(file, "user.x", b"x"))
attempt("length", lambda: os.truncate(file, 0))
attempt("name", lambda: os.rename(file, file + "2"))
attempt("end", lambda: os.unlink(file))
attempt("by descriptor", lambda: os.fchmod(os.open(file, os.O_PATH), 0o600))
attempt("by its path in /proc", lambda: os.chmod("/proc/self/fd/%d" % os.open(file, os.O_PATH), 0o600))
at_empty_path = 0x1000
if libc.syscall(452, os.open("/", os.O_PATH), file[1:].encode(), 0o600, 0) == 0: escaped("fchmodat2")
watch = libc.inotify_init()
if watch >= 0 and libc.inotify_add_watch(watch, file.encode(), 0xfff) >= 0: escaped("watched")
print("done")
