// must not: use the kernel's keys
#include "escape.h"

int main(void) {
	got("add_key", syscall(SYS_add_key, "user", "x", "y", 1, -3));
	got("request_key", syscall(SYS_request_key, "user", "x", 0, 0));
	for (int ring = -5; ring < 0; ring++) got("keyctl", syscall(SYS_keyctl, 0, ring, 1));
	got("search", syscall(SYS_keyctl, 10, -4, "user", "x", 0));
	int fd = open("/proc/keys", O_RDONLY);
	char buf[64];
	if (fd >= 0 && read(fd, buf, sizeof buf) > 0) escaped("/proc/keys");
	return done();
}
