package sigbatch_test

import (
	"bytes"
	"encoding/hex"
	"math/big"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg/chainhash"

	"github.com/lightwork-market/lightwork/internal/sigbatch"
)

// hashed is the challenge of BIP-340.
func hashed(r, key, message []byte) *btcec.ModNScalar {
	e := new(btcec.ModNScalar)
	e.SetBytes((*[32]byte)(chainhash.TaggedHash(chainhash.TagBIP0340Challenge, r, key, message)))
	return e
}

// The cases of BIP-340's own test vectors for verification, made anew: what is
// wrong there and passes with a part of the check left out.
func TestCasesOfBIP340(t *testing.T) {
	good := signSchnorr(t, 1, 1)
	secret := keyOf(1).Key // of an x-only key: negated where y is odd
	if keyOf(1).PubKey().SerializeCompressed()[0] == 3 {
		secret.Negate()
	}
	with := func(change func(s *signed)) signed {
		s := good
		change(&s)
		return s
	}
	raw := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	const p = "fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc2f"
	// s*G = e*P + R for an R with an odd y, or for R at infinity with x of 0 or 1.
	equation := func(nonce uint32, x []byte) func(*signed) {
		return func(s *signed) {
			copy(s.sig[:], x)
			e := hashed(s.sig[:32], s.key[1:], s.message[:])
			e.Mul(&secret).Add(new(btcec.ModNScalar).SetInt(nonce)).PutBytesUnchecked(s.sig[32:])
		}
	}
	odd, even := uint32(0), uint32(0)
	xOf := map[uint32][]byte{}
	for n := uint32(1); odd == 0 || even == 0; n++ {
		key := btcec.PrivKeyFromScalar(new(btcec.ModNScalar).SetInt(n)).PubKey().SerializeCompressed()
		if xOf[n] = key[1:]; key[0] == 3 {
			odd = n
		} else {
			even = n
		}
	}
	if s := with(equation(even, xOf[even])); !s.valid() || !validTogether(s) {
		t.Fatal("a signature by the equation is not valid")
	}
	negated := func(b []byte, modulus *big.Int) {
		n := new(big.Int).SetBytes(b)
		n.Sub(modulus, n).FillBytes(b)
	}
	for what, s := range map[string]signed{
		"key not on the curve": with(func(s *signed) {
			copy(s.key[1:], raw("eefdea4cdb677750a420fee807eacf21eb9898ae79b9768766e4faa04a2d4a34"))
		}),
		"key of p or more": with(func(s *signed) {
			copy(s.key[1:], raw("fffffffffffffffffffffffffffffffffffffffffffffffffffffffefffffc30"))
		}),
		"R with an odd y":       with(equation(odd, xOf[odd])),
		"another message":       with(func(s *signed) { negated(s.message[:], btcec.S256().N) }),
		"s negated":             with(func(s *signed) { negated(s.sig[32:], btcec.S256().N) }),
		"R at infinity, x of 0": with(equation(0, make([]byte, 32))),
		"R at infinity, x of 1": with(equation(0, append(make([]byte, 31), 1))),
		"r not on the curve": with(func(s *signed) {
			copy(s.sig[:], raw("4a298dacae57395a15d0795ddbfd1dcb564da82b0f269bc70a74f8220429ba1d"))
		}),
		"r is p":                        with(func(s *signed) { copy(s.sig[:], raw(p)) }),
		"s is the order":                with(func(s *signed) { copy(s.sig[32:], btcec.S256().N.Bytes()) }),
		"s is 0":                        with(func(s *signed) { clear(s.sig[32:]) }),
		"all zero":                      with(func(s *signed) { clear(s.sig[:]) }),
		"s of 256 ones":                 with(func(s *signed) { copy(s.sig[32:], bytes.Repeat([]byte{255}, 32)) }),
		"everything zero, the key even": {key: sigbatch.Key{2}},
	} {
		if s.valid() {
			t.Errorf("%s: valid in the library", what)
		}
		if validTogether(s) || validTogether(good, s, good) {
			t.Errorf("%s: valid", what)
		}
	}
}

// S in the other half with R's other y recovers the same key: as in the library.
func TestHighS(t *testing.T) {
	s := signECDSA(1, 1)
	new(big.Int).Sub(btcec.S256().N, new(big.Int).SetBytes(s.sig[32:])).FillBytes(s.sig[32:])
	if s.valid() || validTogether(s) {
		t.Error("valid with the y that it had")
	}
	s.recovery ^= 1
	if !s.valid() || !validTogether(s) {
		t.Error("not valid")
	}
}

// r plus the order stands for r only where recovery says so, and where it is a
// coordinate at all.
func TestOverflow(t *testing.T) {
	s := signECDSA(1, 1)
	s.recovery |= 2 // no signature's r is that small by chance
	if s.valid() || validTogether(s) {
		t.Error("valid")
	}
	// A small r, with the key that recovery gives for it.
	found := 0
	for r := byte(1); r < 60; r++ {
		s := signed{ecdsa: true, message: numbered("message", 1), recovery: 2 | r&1}
		s.sig[31], s.sig[63] = r, 7
		key, _, err := ecdsa.RecoverCompact(append([]byte{27 + 4 + s.recovery}, s.sig[:]...), s.message[:])
		if err != nil {
			continue
		}
		found++
		copy(s.key[:], key.SerializeCompressed())
		if !validTogether(s) {
			t.Errorf("r = %d: not valid", r)
		}
		s.recovery ^= 2
		if validTogether(s) != s.valid() {
			t.Errorf("r = %d: otherwise without the order", r)
		}
	}
	if found == 0 {
		t.Error("no r to try")
	}
}

// What is out of range is seen without a sum. That some of it could never come
// out true in one is nothing to rely on.
func TestRanges(t *testing.T) {
	order, prime := btcec.S256().N, btcec.S256().P
	more := new(big.Int).Add(order, big.NewInt(1))
	plusOne := new(big.Int).Add(prime, big.NewInt(1)) // 1 is an x of the curve
	put := func(s signed, r, sc *big.Int) signed {
		if r != nil {
			r.FillBytes(s.sig[:32])
		}
		if sc != nil {
			sc.FillBytes(s.sig[32:])
		}
		return s
	}
	schnorr, ecdsa := signSchnorr(t, 1, 1), signECDSA(1, 1)
	notOn, _ := new(big.Int).SetString("4a298dacae57395a15d0795ddbfd1dcb564da82b0f269bc70a74f8220429ba1d", 16)
	large := schnorr
	plusOne.FillBytes(large.key[1:])
	overflow := put(ecdsa, new(big.Int).Sub(prime, order), nil)
	overflow.recovery |= 2
	for i, s := range []signed{
		put(schnorr, prime, nil), put(schnorr, plusOne, nil), put(schnorr, notOn, nil), put(schnorr, nil, order),
		put(schnorr, nil, more), large, put(ecdsa, nil, more),
		put(ecdsa, new(big.Int), nil), put(ecdsa, nil, new(big.Int)), put(ecdsa, order, nil), put(ecdsa, nil, order),
		put(ecdsa, notOn, nil), overflow,
	} {
		var b sigbatch.Batch
		if s.addTo(&b) || b.Len() != 0 {
			t.Errorf("number %d is taken", i)
		}
	}
	var b sigbatch.Batch
	for k := range int64(40) { // half of these are an x of the curve
		if s := put(ecdsa, new(big.Int).Add(order, big.NewInt(k)), nil); s.addTo(&b) {
			t.Errorf("r = order + %d is taken", k)
		}
	}
	if b.AddECDSA(ecdsa.key, &ecdsa.message, &ecdsa.sig, ecdsa.recovery|4) {
		t.Error("a recovery id of more than 3 is taken")
	}
	for _, first := range []byte{0, 1, 4, 6, 255} {
		key := sigbatch.Key(append([]byte{first}, ecdsa.key[1:]...))
		if key.Valid() || b.AddECDSA(key, &ecdsa.message, &ecdsa.sig, ecdsa.recovery) {
			t.Errorf("a key that begins with %d is taken", first)
		}
	}
}
