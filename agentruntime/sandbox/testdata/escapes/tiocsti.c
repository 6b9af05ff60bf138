// must not: type into a terminal
#include "escape.h"

#include <sys/ioctl.h>

int main(void) {
	char x = 'x';
	int ends[2] = {0, open("/dev/null", O_RDWR)};
	for (int i = 0; i < 2; i++)
		for (int high = 0; high < 2; high++) {
			must_be("TIOCSTI", EPERM, syscall(SYS_ioctl, ends[i], TIOCSTI | ((unsigned long)high << 32), &x));
			must_be("TIOCLINUX", EPERM, syscall(SYS_ioctl, ends[i], 0x541c | ((unsigned long)high << 63), &x));
		}
	got("a controlling terminal", open("/dev/tty", O_RDWR));
	got("a new terminal", open("/dev/ptmx", O_RDWR));
	return done();
}
