// must not: become another user
#include "escape.h"

#include <grp.h>

int main(void) {
	uid_t me = getuid();
	got("setuid 0", setuid(0));
	got("setgid 0", setgid(0));
	got("setresuid 0", setresuid(0, 0, 0));
	got("setresuid 1000", setresuid(1000, 1000, 1000));
	gid_t none = 0;
	got("setgroups", setgroups(1, &none));
	syscall(SYS_setfsuid, 0);
	if (syscall(SYS_setfsuid, -1) == 0) escaped("setfsuid 0");
	if (getuid() != me || geteuid() != me) escaped("another id");
	return done();
}
