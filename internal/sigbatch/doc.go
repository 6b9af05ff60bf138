// Package sigbatch checks many BIP-340 and ECDSA signatures over secp256k1 in
// one sum, which costs a few microseconds a signature where one alone costs a
// hundred.
//
// Both kinds of signature state an equation R = u*G + v*P between points that
// are known: G is the curve's, P the signer's key, R is in the signature. A
// batch multiplies each equation by a secret random number of 128 bits, adds
// them all up, and looks whether the sum is zero. If one equation is false,
// the sum is zero with a chance of 2^-128, whatever was signed: who made the
// signatures did not know the numbers. So a batch can say "all are valid"; it
// does not say which is not, and who asks checks smaller batches, in the end
// with another implementation.
//
// Everything here is public data: nothing takes constant time. The arithmetic
// modulo the group's order is decred's, whose arithmetic modulo the field's
// prime takes three times as long as the one here; tests hold the two together.
package sigbatch
