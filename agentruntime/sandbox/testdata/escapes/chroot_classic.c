// must not: leave by chroot
#include "escape.h"

int main(void) {
	mkdir("/tmp/jail", 0755);
	int top = open("/", O_RDONLY);
	got("chroot", chroot("/tmp/jail"));
	if (fchdir(top) == 0) for (int i = 0; i < 64; i++) chdir("..");
	got("chroot .", chroot("."));
	got("pivot_root", syscall(SYS_pivot_root, ".", "."));
	if (open(getenv("CANARY_FILE"), O_RDONLY) >= 0) escaped("the canary is readable");
	return done();
}
