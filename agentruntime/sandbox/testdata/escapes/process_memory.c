// must not: touch another process's memory
#include "escape.h"

#include <sys/uio.h>

int main(void) {
	char buf[8];
	struct iovec here = {buf, 8}, there = {buf, 8};
	got("read", syscall(SYS_process_vm_readv, getppid(), &here, 1, &there, 1, 0));
	got("write", syscall(SYS_process_vm_writev, 1, &here, 1, &there, 1, 0));
	got("mem of process 1", open("/proc/1/mem", O_RDWR));
	got("kcmp", syscall(SYS_kcmp, 1, getpid(), 0, 0, 0));
	got("process_madvise", syscall(440, syscall(SYS_pidfd_open, 1, 0), &there, 1, 4, 0));
	got("move_pages", syscall(SYS_move_pages, 1, 0, 0, 0, 0, 0));
	return done();
}
