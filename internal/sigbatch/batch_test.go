package sigbatch_test

import (
	"crypto/sha256"
	"encoding/binary"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"github.com/lightwork-market/lightwork/internal/sigbatch"
)

// signed is what a batch takes, of either kind.
type signed struct {
	key      sigbatch.Key
	message  [32]byte
	sig      [64]byte
	ecdsa    bool
	recovery byte
}

func (s signed) addTo(b *sigbatch.Batch) bool {
	if s.ecdsa {
		return b.AddECDSA(s.key, &s.message, &s.sig, s.recovery)
	}
	return b.AddSchnorr((*[32]byte)(s.key[1:]), &s.message, &s.sig)
}

func numbered(what string, n int) [32]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint32([]byte(what), uint32(n)))
}

func keyOf(n int) *btcec.PrivateKey {
	seed := numbered("key", n)
	key, _ := btcec.PrivKeyFromBytes(seed[:])
	return key
}

func signSchnorr(t testing.TB, key, message int) signed {
	t.Helper()
	s := signed{message: numbered("message", message)}
	sig, err := schnorr.Sign(keyOf(key), s.message[:])
	if err != nil {
		t.Fatal(err)
	}
	s.key[0] = 2
	copy(s.key[1:], schnorr.SerializePubKey(keyOf(key).PubKey()))
	copy(s.sig[:], sig.Serialize())
	return s
}

func signECDSA(key, message int) signed {
	s := signed{message: numbered("message", message), ecdsa: true}
	compact := ecdsa.SignCompact(keyOf(key), s.message[:], true)
	copy(s.key[:], keyOf(key).PubKey().SerializeCompressed())
	copy(s.sig[:], compact[1:])
	s.recovery = compact[0] - 27 - 4
	return s
}

func TestValid(t *testing.T) {
	for n := range 20 {
		var b sigbatch.Batch
		for i := range n {
			s := signSchnorr(t, i%7, i)
			if i%3 == 2 {
				s = signECDSA(i%7, i)
			}
			if !s.addTo(&b) {
				t.Fatalf("signature %d is refused", i)
			}
		}
		if b.Len() != n || !b.Valid(0, n) {
			t.Errorf("%d valid signatures are not valid together", n)
		}
	}
}

// A batch may be asked about what is in it, and go on: what was divided must not
// be divided again, and a Reset leaves nothing to divide.
func TestGoesOn(t *testing.T) {
	var b sigbatch.Batch
	for i := range 12 {
		s := signECDSA(i%5, i)
		if i%4 == 3 {
			s = signSchnorr(t, i%5, i)
		}
		if !s.addTo(&b) || !b.Valid(0, i+1) || !b.Valid(i/2, i+1) {
			t.Fatalf("%d valid signatures, asked about each time, are not valid", i+1)
		}
	}
	signECDSA(0, 100).addTo(&b)
	b.Reset()
	signSchnorr(t, 1, 101).addTo(&b)
	signECDSA(2, 102).addTo(&b)
	if !b.Valid(0, 2) {
		t.Error("what was there before a Reset is still to be divided")
	}
	forged := signECDSA(3, 103)
	forged.message[0] ^= 1
	forged.addTo(&b)
	if b.Valid(0, 3) || !b.Valid(0, 2) {
		t.Error("a forged signature that is added later")
	}
}
