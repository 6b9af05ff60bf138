// Package crashmatrix runs paid jobs with the real programs on real lnd and
// btcd, and at each crash point of a payment kills the node with SIGKILL, kills
// lnd, or cuts the connection. Everything is then brought back, and counted:
// one job, one payment, one receipt, the right money on both sides of the
// channel, a budget that adds up.
//
// The rails are lnd's three modes (hold, prepay, postpay), a buyer's wallet over
// Nostr Wallet Connect, notes of a real Cashu mint, which is killed too, and
// transactions on the chain. They share one table, in which every point of every
// rail is played or says why it cannot be.
//
// Nothing in the programs knows of it. A point is a moment that can be seen from
// outside: a call or its answer in a proxy before lnd or the mint, a message in a proxy
// before the relay, a commit that waits for a lock the test holds.
//
// make crash-matrix prints it; make crash-loop kills at random.
package crashmatrix
