// must not: take a descriptor of process 1
#include "escape.h"

int main(void) {
	int pidfd = syscall(SYS_pidfd_open, 1, 0);
	for (int fd = 0; fd < 16; fd++) got("pidfd_getfd", syscall(438, pidfd, fd, 0));
	/* of the same user it arrives, and does nothing */
	long r = syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, 0, 0);
	if (getenv("CANARY_SPLIT")) got("signal by pidfd", r);
	return done();
}
