// must not: enter another namespace
#include "escape.h"

#include <sched.h>

int main(void) {
	static const char *names[] = {"user", "mnt", "net", "pid", "ipc", "uts", "cgroup"};
	char path[64];
	for (int i = 0; i < 7; i++) {
		snprintf(path, sizeof path, "/proc/1/ns/%s", names[i]);
		got(path, open(path, O_RDONLY));
		snprintf(path, sizeof path, "/proc/self/ns/%s", names[i]);
		int fd = open(path, O_RDONLY);
		if (fd >= 0) got("setns", setns(fd, 0));
	}
	int pidfd = syscall(SYS_pidfd_open, 1, 0);
	got("setns by pidfd", syscall(SYS_setns, pidfd, CLONE_NEWNS));
	return done();
}
