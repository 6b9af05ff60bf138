// Package sigbatch checks many BIP-340 and ECDSA signatures over secp256k1 in
// one sum. A signature in a large batch costs a few microseconds; checked alone it
// costs about a hundred.
//
// A signature of either kind states an equation R = u*G + v*P between known
// points: G is the generator, P is the signer's key, and R is in the signature. A
// batch multiplies each equation by its own secret random number of 128 bits, adds
// all equations, and tests whether the sum is zero. If an equation is false, the
// sum is zero with a probability of 2^-128, because the signers could not know the
// numbers. A batch can therefore say that all signatures are valid, but not which
// one is invalid: the caller finds that one by checking smaller batches, and at
// last single signatures with another implementation.
//
// All input is public, so nothing here needs constant time. Scalars (modulo the
// group's order) use decred's arithmetic. Field elements have their own, which is
// three times as fast; tests compare it with decred's.
package sigbatch
