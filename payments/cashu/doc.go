// Package cashu is a wallet backend on a Cashu mint. It receives and pays in notes,
// which the mint signed and promises to redeem.
//
// A payment is a set of notes locked with NUT-14 to the payment hash and the
// payee's key until a time, after which the payer's key can take them back. The
// payee collects the notes by giving the mint the preimage, and the payer learns
// the preimage from the mint, so hold, prepay, postpay and sealed delivery work as
// on Lightning. The notes travel in a NUT-18 message inside a NIP-17 gift wrap to
// the payee's key. The difference is custody: the mint holds the bitcoin, can
// refuse to pay, and decides which notes count as spent.
//
// Nothing is lost or done twice: every request that moves notes is committed with
// its inputs and blinded outputs before it is sent, and if the answer is lost, its
// outcome is looked up with NUT-09 and NUT-07 before the same request is sent
// again. Only the goroutine of [Wallet.Serve] sends these requests.
//
// Sources: github.com/cashubtc/nuts, numbers 00 to 14 and 18.
package cashu
