// Package cashu is a wallet backend on a Cashu mint: payee and payer in notes
// that the mint signed and promises to pay for.
//
// A payment is a set of notes locked by NUT-14 to the payment hash and the
// payee's key until a time, after which the payer's key takes them back. So
// the payee is paid by giving the mint the preimage, the payer learns the
// preimage from the mint, and hold, prepay, postpay and sealed delivery work
// as on Lightning. The notes travel in a NUT-18 message inside a NIP-17 gift
// wrap to the payee's key. What is different is custody: the mint holds the
// bitcoin, can refuse to pay, and its word is what "spent" means.
//
// Nothing is lost and nothing done twice: every request that moves notes is
// committed, with its inputs and its blinded outputs, before it is sent; an
// answer that is lost is asked for by NUT-09 and NUT-07 before the same
// request is sent again. One goroutine, Serve's, sends these requests.
//
// Sources: github.com/cashubtc/nuts, numbers 00 to 14 and 18.
package cashu
