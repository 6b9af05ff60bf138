// must not: use numbers of another ABI
#include "escape.h"

int main(void) {
#ifdef __x86_64__
	got("getpid", syscall(0x40000000 | SYS_getpid));
	got("ptrace", syscall(0x40000000 | 521, 0, 0, 0, 0));
	got("unshare", syscall(0x40000000 | SYS_unshare, 0x10000000));
#endif
	return done();
}
