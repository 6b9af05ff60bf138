// must not: weaken its own memory
#include "escape.h"

#include <sys/mman.h>
#include <sys/personality.h>

int main(void) {
	got("READ_IMPLIES_EXEC", personality(READ_IMPLIES_EXEC));
	got("MMAP_PAGE_ZERO", personality(MMAP_PAGE_ZERO));
	got("ADDR_COMPAT_LAYOUT", personality(ADDR_COMPAT_LAYOUT));
	if (mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) escaped("page zero");
	return done();
}
