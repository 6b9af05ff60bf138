// Package seccomp has what filters of system calls are made of: the handful of
// instructions that they use, their beginning, and the call that installs them.
// Which calls a filter allows is the affair of whoever makes it.
package seccomp
