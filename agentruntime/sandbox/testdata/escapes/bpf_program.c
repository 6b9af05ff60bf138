// must not: load a BPF program or map
#include "escape.h"

int main(void) {
	unsigned attr[32] = {2, 4, 4, 1};
	got("map", syscall(SYS_bpf, 0, attr, sizeof attr));
	got("program", syscall(SYS_bpf, 5, attr, sizeof attr));
	return done();
}
