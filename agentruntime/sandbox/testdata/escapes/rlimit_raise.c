// must not: raise a limit
#include "escape.h"

#include <sys/resource.h>

int main(void) {
	struct rlimit r = {RLIM_INFINITY, RLIM_INFINITY};
	got("core", setrlimit(RLIMIT_CORE, &r));
	struct rlimit low = {1, 1};
	got("limits of process 1", syscall(SYS_prlimit64, 1, RLIMIT_NOFILE, &low, 0));
	return done();
}
