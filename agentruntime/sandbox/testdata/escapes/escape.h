// What every program here shares: it tries, and says what it got.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static void escaped(const char *what) {
	printf("escaped: %s\n", what);
	fflush(stdout);
}

// got reports a call that did not fail.
static inline void got(const char *what, long result) {
	if (result >= 0) escaped(what);
}

// must_be reports a call that did not fail in this very way.
static inline void must_be(const char *what, int want, long result) {
	if (result >= 0 || errno != want) printf("escaped: %s: %ld, %s\n", what, result, strerror(errno));
}

static int done(void) {
	puts("done");
	return 0;
}
