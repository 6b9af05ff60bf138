package sigbatch

import (
	"crypto/sha256"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"
)

// related are multiples of G that a signer may choose as key and as nonce so that
// the batch meets the same point again and again: G, its opposite, lambda times
// it, and what the tables of digits hold.
func related() (list []btcec.ModNScalar) {
	s := newSplitter()
	for _, n := range []uint32{1, 2, 3, 15, 16, 32} {
		k := small(n)
		for range 3 { // lambda^3 = 1
			list = append(list, k)
			k.Mul(&s.lambda)
		}
	}
	half := small(2)
	half.InverseNonConst()
	return append(list, half, s.minusB1, s.minusB2)
}

// even is the multiple, or its opposite, whose y is even, and its x.
func even(k btcec.ModNScalar) (btcec.ModNScalar, [32]byte) {
	p := multiple(&k)
	if p.y.isOdd() {
		k.Negate()
	}
	return k, p.x.bytes()
}

// TestRelatedKeys: whatever signers have chosen, all is said as the library says it.
func TestRelatedKeys(t *testing.T) {
	var b, bad Batch
	for i, secret := range related() {
		for j, nonce := range related() {
			d, key := even(secret)
			k, r := even(nonce)
			message := sha256.Sum256([]byte{byte(i), byte(j)})
			var sig [64]byte
			copy(sig[:], r[:])
			hash := challenge(&sig, &key, &message)
			var s btcec.ModNScalar
			s.SetBytes(&hash)
			s.Mul(&d).Add(&k)
			s.PutBytesUnchecked(sig[32:])
			library, err := schnorr.ParsePubKey(key[:])
			if err != nil {
				t.Fatal(err)
			}
			if parsed, err := schnorr.ParseSignature(sig[:]); err != nil || !parsed.Verify(message[:], library) {
				t.Fatalf("%d, %d: not valid for the library: %v", i, j, err)
			}
			if !b.AddSchnorr(&key, &message, &sig) || !b.Valid(b.Len()-1, b.Len()) {
				t.Fatalf("%d, %d: not valid alone", i, j)
			}
			sig[63] ^= 1
			bad.Reset()
			if bad.AddSchnorr(&key, &message, &sig) && bad.Valid(0, 1) {
				t.Fatalf("%d, %d: another s is valid", i, j)
			}
		}
	}
	if !b.Valid(0, b.Len()) {
		t.Error("not valid together")
	}
	one := small(1)
	b.checks[b.Len()/2].u.Add(&one)
	if b.Valid(0, b.Len()) {
		t.Error("one false among them is not seen")
	}
}
