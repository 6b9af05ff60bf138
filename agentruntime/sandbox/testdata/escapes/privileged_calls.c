// must not: do what only an administrator may
#include "escape.h"

#include <sys/reboot.h>
#include <sys/time.h>

int main(void) {
	struct timeval t = {1, 0};
	got("settimeofday", settimeofday(&t, 0));
	got("init_module", syscall(SYS_init_module, "", 0, ""));
	got("finit_module", syscall(SYS_finit_module, 0, "", 0));
	got("kexec_load", syscall(SYS_kexec_load, 0, 0, 0, 0));
	got("kexec_file_load", syscall(SYS_kexec_file_load, 0, 0, 0, "", 0));
	got("swapon", syscall(SYS_swapon, "/tmp/x", 0));
	got("acct", syscall(SYS_acct, "/tmp/x"));
	got("syslog", syscall(SYS_syslog, 3, (char[64]){0}, 64));
	got("sethostname", sethostname("x", 1));
	got("reboot", syscall(SYS_reboot, 0, 0, 0, 0));
	got("fanotify", syscall(SYS_fanotify_init, 0, 0));
	got("quotactl", syscall(SYS_quotactl, 0, "", 0, 0));
	got("memfd_secret", syscall(447, 0));
#ifdef SYS_iopl
	got("iopl", syscall(SYS_iopl, 3));
	got("ioperm", syscall(SYS_ioperm, 0x60, 1, 1));
#endif
	return done();
}
