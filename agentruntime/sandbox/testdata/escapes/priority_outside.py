# must not: slow a process outside down
import os

def escaped(what): print("escaped:", what, flush=True)

def attempt(what, f):
    try: f()
    except OSError: return
    escaped(what)

pid = int(os.environ["CANARY_PID"])
attempt("nice", lambda: os.setpriority(os.PRIO_PROCESS, pid, 19))
attempt("processors", lambda: os.sched_setaffinity(pid, {0}))
attempt("scheduler", lambda: os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0)))
print("done")
