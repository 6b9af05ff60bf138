// Package crashtest kills a provider or a buyer at every step of a paid job,
// with SIGKILL in a process of its own, starts it again, and counts: one job,
// one result, one receipt, the price moved once.
//
// The relay, the blob server and the ledger of play money run in the test's
// process and live on; all messages between the two sides go through them.
package crashtest
