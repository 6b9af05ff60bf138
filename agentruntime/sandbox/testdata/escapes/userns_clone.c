// must not: make a namespace by clone
#include "escape.h"

#include <sched.h>

int main(void) {
	static const long kinds[] = {CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWNET, CLONE_NEWPID, CLONE_NEWIPC, CLONE_NEWUTS, 0x02000000};
	for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++)
		for (int high = 0; high < 2; high++) {
			long pid = syscall(SYS_clone, kinds[i] | SIGCHLD | ((long)high << 32), 0, 0, 0, 0);
			if (pid == 0) _exit(0);
			got("clone", pid);
		}
	struct { unsigned long long flags, more[10]; } args = {CLONE_NEWUSER, {0}};
	long pid = syscall(435, &args, sizeof args);
	if (pid == 0) _exit(0);
	got("clone3", pid);
	return done();
}
