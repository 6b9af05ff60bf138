// must not: have a capability
// landlock lets: bounding set
#include "escape.h"

#include <sys/prctl.h>
#include <linux/capability.h>

int main(void) {
	struct __user_cap_header_struct head = {_LINUX_CAPABILITY_VERSION_3, 0};
	struct __user_cap_data_struct data[2] = {{0}};
	syscall(SYS_capget, &head, data);
	if (data[0].effective | data[0].permitted | data[1].effective | data[1].permitted) escaped("capabilities");
	data[0].effective = data[0].permitted = 1u << CAP_SYS_ADMIN;
	got("capset", syscall(SYS_capset, &head, data));
	for (int i = 0; i < 41; i++) {
		if (prctl(PR_CAPBSET_READ, i, 0, 0, 0) == 1) escaped("bounding set");
		got("ambient", prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, i, 0, 0));
	}
	got("no_new_privs off", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
	return done();
}
