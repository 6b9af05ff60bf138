// must not: enter the kernel as a 32-bit program
#include "escape.h"

#include <sys/wait.h>

int main(void) {
#ifdef __x86_64__
	pid_t pid = fork();
	if (pid == 0) {
		long r;
		__asm__ volatile("int $0x80" : "=a"(r) : "a"(20L)); /* getpid */
		_exit(r > 0 ? 7 : 0);
	}
	int status;
	waitpid(pid, &status, 0);
	if (WIFEXITED(status)) escaped("the 32-bit entrance is open");
#endif
	return done();
}
