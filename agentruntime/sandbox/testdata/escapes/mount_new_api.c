// must not: mount by the newer calls
#include "escape.h"

int main(void) {
	got("fsopen", syscall(SYS_fsopen, "tmpfs", 0));
	got("fspick", syscall(SYS_fspick, AT_FDCWD, "/", 0));
	got("open_tree", syscall(SYS_open_tree, AT_FDCWD, "/usr", 1));
	got("fsmount", syscall(SYS_fsmount, 0, 0, 0));
	got("move_mount", syscall(SYS_move_mount, AT_FDCWD, "/usr", AT_FDCWD, "/tmp", 0));
	char attr[32] = {0};
	got("mount_setattr", syscall(442, AT_FDCWD, "/usr", 0, attr, sizeof attr));
	return done();
}
