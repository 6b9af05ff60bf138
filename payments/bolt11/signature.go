package bolt11

import (
	"encoding/hex"
	"fmt"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
)

// Signature is the signature of an [Invoice], from [DecodeUnsigned].
type Signature struct {
	Hash     [32]byte // what is signed
	RS       [64]byte // r, then s
	Recovery byte     // 0 to 3 in a valid one

	payee *btcec.PublicKey // of the n field
}

// Check returns the key that signed, compressed and in hex. With an n field, its key
// must have signed, and S must be low. Otherwise the key is recovered, and BOLT 11
// allows both low and high S.
func (s Signature) Check() (string, error) {
	if s.Recovery > 3 {
		return "", fmt.Errorf("%w: recovery id %d", ErrSignature, s.Recovery)
	}
	if s.payee == nil {
		// 27 and 4 are the compact form's marks for "a compressed key".
		key, _, err := ecdsa.RecoverCompact(append([]byte{27 + 4 + s.Recovery}, s.RS[:]...), s.Hash[:])
		if err != nil {
			return "", fmt.Errorf("%w: %w", ErrSignature, err)
		}
		return hex.EncodeToString(key.SerializeCompressed()), nil
	}

	var r, low btcec.ModNScalar
	if r.SetByteSlice(s.RS[:32]) || low.SetByteSlice(s.RS[32:]) || r.IsZero() || low.IsZero() {
		return "", fmt.Errorf("%w: out of range", ErrSignature)
	}
	if low.IsOverHalfOrder() {
		return "", fmt.Errorf("%w: high S", ErrSignature)
	}
	if !ecdsa.NewSignature(&r, &low).Verify(s.Hash[:], s.payee) {
		return "", fmt.Errorf("%w: not by the key in field n", ErrSignature)
	}

	return hex.EncodeToString(s.payee.SerializeCompressed()), nil
}

// PassesWith reports whether [Signature.Check] would return this key, compressed and in
// hex, for a signature that is known to be by the key and to recover it. With an n
// field, the field must name the key and S must be low. Check then recovers nothing, so
// it also passes some signatures that do not recover the key.
func (s Signature) PassesWith(payee string) bool {
	if s.payee == nil {
		return true
	}
	var low btcec.ModNScalar
	return !low.SetByteSlice(s.RS[32:]) && !low.IsOverHalfOrder() && payee == hex.EncodeToString(s.payee.SerializeCompressed())
}
