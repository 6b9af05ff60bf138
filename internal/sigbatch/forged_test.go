package sigbatch_test

import (
	"bytes"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"github.com/lightwork-market/lightwork/internal/sigbatch"
)

// valid is the other implementation's word.
func (s signed) valid() bool {
	if s.ecdsa {
		key, _, err := ecdsa.RecoverCompact(append([]byte{27 + 4 + s.recovery}, s.sig[:]...), s.message[:])
		return err == nil && bytes.Equal(key.SerializeCompressed(), s.key[:])
	}
	key, err := schnorr.ParsePubKey(s.key[1:])
	if err != nil {
		return false
	}
	// That implementation takes s modulo the group's order; BIP-340 does not.
	var scalar btcec.ModNScalar
	if scalar.SetByteSlice(s.sig[32:]) {
		return false
	}
	sig, err := schnorr.ParseSignature(s.sig[:])
	return err == nil && sig.Verify(s.message[:], key)
}

// validTogether is a batch's word on all of them.
func validTogether(list ...signed) bool {
	var b sigbatch.Batch
	for _, s := range list {
		if !s.addTo(&b) {
			return false
		}
	}
	return b.Valid(0, b.Len())
}

func xored(s, mask signed) signed {
	xor := func(to, by []byte) {
		for i := range to {
			to[i] ^= by[i]
		}
	}
	xor(s.key[1:], mask.key[1:])
	xor(s.message[:], mask.message[:])
	xor(s.sig[:], mask.sig[:])
	s.recovery ^= mask.recovery
	return s
}

// FuzzForged changes a valid signature, in any way there is, and holds that the
// batch, alone and with valid ones around it, says what the library says.
func FuzzForged(f *testing.F) {
	f.Add(uint8(0), false, []byte{})
	f.Add(uint8(1), true, []byte{})
	for place := range 130 {
		f.Add(uint8(place), place%2 == 0, append(make([]byte, place), 1<<(place%8)))
	}
	f.Fuzz(func(t *testing.T, n uint8, isECDSA bool, mask []byte) {
		s := signSchnorr(t, int(n%5), int(n))
		if isECDSA {
			s = signECDSA(int(n%5), int(n))
		}
		var m signed
		for i, part := range [][]byte{m.sig[:32], m.sig[32:], m.message[:], m.key[1:]} {
			copy(part, mask[min(32*i, len(mask)):])
		}
		if len(mask) > 128 {
			m.recovery = mask[128] & 7
		}
		s = xored(s, m)
		if s.recovery > 3 {
			if s.addTo(new(sigbatch.Batch)) == s.ecdsa {
				t.Fatal("a recovery id of more than 3")
			}
			return
		}
		if _, err := btcec.ParsePubKey(s.key[:]); s.key.Valid() != (err == nil) {
			t.Fatalf("key %x: valid: %v, the library: %v", s.key, s.key.Valid(), err)
		}
		if got, want := validTogether(s), s.valid(); got != want {
			t.Fatalf("alone it is valid: %v, the library: %v", got, want)
		}
		if got, want := validTogether(signSchnorr(t, 1, 1000), s, signECDSA(2, 1001)), s.valid(); got != want {
			t.Fatalf("among others it is valid: %v, the library: %v", got, want)
		}
	})
}

// Every bit of the middle one of five.
func TestEveryBit(t *testing.T) {
	list := []signed{signSchnorr(t, 1, 1), signECDSA(2, 2), signSchnorr(t, 1, 3), signECDSA(1, 4), signSchnorr(t, 3, 5)}
	for at := range list {
		good := list[at]
		for bit := range 8 * (64 + 32 + 32) {
			var mask signed
			switch place, flip := bit/8, byte(1)<<(bit%8); {
			case place < 64:
				mask.sig[place] = flip
			case place < 96:
				mask.message[place-64] = flip
			default:
				mask.key[1+place-96] = flip
			}
			list[at] = xored(good, mask)
			if validTogether(list...) {
				t.Fatalf("signature %d is valid with bit %d turned", at, bit)
			}
		}
		list[at] = good
	}
	if !validTogether(list...) {
		t.Fatal("not valid as they were")
	}
}

// shifted adds d to s.
func shifted(s signed, d *btcec.ModNScalar) signed {
	var n btcec.ModNScalar
	n.SetByteSlice(s.sig[32:])
	n.Add(d).PutBytesUnchecked(s.sig[32:])
	return s
}

// Errors that cancel out in a plain sum, or in one with factors that the forger
// knows, here 1, 2, 3.
func TestErrorsThatCancelOut(t *testing.T) {
	a, b, c := signSchnorr(t, 1, 1), signSchnorr(t, 1, 2), signSchnorr(t, 2, 3)
	d := new(btcec.ModNScalar).SetInt(12345)
	scaled := func(n uint32, negative bool) *btcec.ModNScalar {
		k := new(btcec.ModNScalar).SetInt(n)
		k.Mul(d)
		if negative {
			k.Negate()
		}
		return k
	}
	swapped, other := a, b
	copy(swapped.sig[32:], b.sig[32:])
	copy(other.sig[32:], a.sig[32:])
	for what, list := range map[string][]signed{
		"+d, -d":         {shifted(a, scaled(1, false)), shifted(b, scaled(1, true))},
		"+d, -d, valid":  {shifted(a, scaled(1, false)), shifted(c, scaled(1, true)), b},
		"+2d, -d":        {shifted(a, scaled(2, false)), shifted(b, scaled(1, true))},
		"+3d, 0, -d":     {shifted(a, scaled(3, false)), b, shifted(c, scaled(1, true))},
		"s of the other": {swapped, other},
		"the same twice": {shifted(a, d), shifted(a, d)},
	} {
		if validTogether(list...) {
			t.Errorf("%s: valid", what)
		}
	}
}

// What comes twice, or is a batch of nothing, is no exception.
func TestTwiceAndNone(t *testing.T) {
	a, b := signSchnorr(t, 1, 1), signECDSA(1, 1)
	if !validTogether() || !validTogether(a, a) || !validTogether(a, b, a, b, b, a, a, a) {
		t.Error("valid ones are not valid")
	}
	bad := a
	bad.message[0] ^= 1
	if validTogether(a, bad, bad) || validTogether(bad, bad, bad, a) {
		t.Error("valid")
	}
}

// Each part of a batch is judged for itself.
func TestParts(t *testing.T) {
	var b sigbatch.Batch
	bad := map[int]bool{3: true, 17: true}
	for i := range 20 {
		s := signSchnorr(t, i%3, i)
		s.message[5] ^= map[bool]byte{true: 1}[bad[i]]
		if !s.addTo(&b) {
			t.Fatal(i)
		}
	}
	for i := range 20 {
		if b.Valid(i, i+1) == bad[i] {
			t.Errorf("signature %d", i)
		}
	}
	if !b.Valid(4, 17) || b.Valid(3, 17) || b.Valid(4, 18) || !b.Valid(7, 7) || b.Valid(0, 20) {
		t.Error("a part is not judged by what is in it")
	}
	b.Reset()
	if s := signSchnorr(t, 1, 1); b.Len() != 0 || !s.addTo(&b) || !b.Valid(0, 1) {
		t.Error("not empty after Reset")
	}
}
