// must not: stop the kernel at a page
#include "escape.h"

int main(void) {
	got("plain", syscall(SYS_userfaultfd, 0));
	got("user mode only", syscall(SYS_userfaultfd, 1));
	got("device", open("/dev/userfaultfd", O_RDWR));
	return done();
}
