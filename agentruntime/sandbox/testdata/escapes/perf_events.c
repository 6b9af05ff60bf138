// must not: watch the machine
#include "escape.h"

#include <linux/perf_event.h>

int main(void) {
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_CPU_CLOCK, .exclude_kernel = 1};
	got("own", syscall(SYS_perf_event_open, &a, 0, -1, -1, 0));
	got("machine", syscall(SYS_perf_event_open, &a, -1, 0, -1, 0));
	return done();
}
