// must not: open a file by its handle
#include "escape.h"

struct handle { unsigned bytes; int type; unsigned char h[128]; };

int main(void) {
	struct handle h = {.bytes = 128};
	int mount, root = open("/", O_RDONLY);
	got("name_to_handle_at", syscall(SYS_name_to_handle_at, root, "usr", &h, &mount, 0));
	struct handle inode = {.bytes = 8, .type = 1, .h = {2}};
	got("open_by_handle_at", syscall(SYS_open_by_handle_at, root, &inode, O_RDONLY));
	got("open_by_handle_at /usr", syscall(SYS_open_by_handle_at, open("/usr", O_RDONLY), &inode, O_RDONLY));
	return done();
}
