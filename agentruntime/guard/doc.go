// Package guard is the process between a supervisor and one agent. It is the
// agent's parent and the reaper of all its descendants, and it holds a socket to
// the supervisor. When that socket closes, because the supervisor asks for it
// or because it was killed, the guard sends SIGKILL to the agent's process
// group and to every other descendant, also those that left the group, until
// none is left. When the guard itself is killed, the kernel kills the agent
// (parent-death signal) and the supervisor kills the agent's group.
//
// A program that links this package becomes a guard, and nothing else, when it
// is started with the environment variable Env.
//
// An agent with a Confinement is started through a door, the same program once
// more, which confines itself and becomes the agent. So the guard is outside, and
// what is confined can neither signal it (from Landlock 6 on) nor reach its memory.
//
// Not covered: a descendant that has left the group and kills the guard first,
// which such a Confinement prevents, or one that became another user (set-uid)
// where the guard is not root. Agents that may be hostile need another uid, a
// Confinement or a sandbox.
package guard
