// must not: have a descriptor that nobody gave it
#include "escape.h"

int main(void) {
	struct stat st;
	for (int fd = 3; fd < 4096; fd++)
		if (fstat(fd, &st) == 0) escaped("an open descriptor");
	return done();
}
