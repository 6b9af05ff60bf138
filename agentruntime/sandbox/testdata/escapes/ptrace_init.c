// must not: trace a process
#include "escape.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

int main(void) {
	got("attach to process 1", ptrace(PTRACE_ATTACH, 1, 0, 0));
	got("seize process 1", ptrace(PTRACE_SEIZE, 1, 0, 0));
	got("trace me", ptrace(PTRACE_TRACEME, 0, 0, 0));
	pid_t pid = fork();
	if (pid == 0) { pause(); _exit(0); }
	got("attach to a child", ptrace(PTRACE_ATTACH, pid, 0, 0));
	kill(pid, SIGKILL);
	waitpid(pid, 0, 0);
	return done();
}
