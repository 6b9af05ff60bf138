package cashu

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/btcsuite/btcd/btcec/v2"
)

// hashDomain separates these hashes from all others (NUT-00).
const hashDomain = "Secp256k1_HashToCurve_Cashu_"

var errPoint = errors.New("not a point of the curve")

// hashToCurve returns NUT-00's Y of a secret: a point whose logarithm nobody knows.
func hashToCurve(secret []byte) (*btcec.PublicKey, error) {
	message := sha256.Sum256(append([]byte(hashDomain), secret...))
	// Half of all x are on the curve, so 2^16 misses do not happen.
	for i := range uint32(1 << 16) {
		hash := sha256.Sum256(binary.LittleEndian.AppendUint32(message[:], i))
		if y, err := btcec.ParsePubKey(append([]byte{2}, hash[:]...)); err == nil {
			return y, nil
		}
	}
	return nil, fmt.Errorf("hash to curve: %w", errPoint)
}

// blind returns B_ = Y + rG, which the mint signs without learning the secret.
func blind(secret string, r *btcec.ModNScalar) (*btcec.PublicKey, error) {
	y, err := hashToCurve([]byte(secret))
	if err != nil {
		return nil, err
	}
	var rG btcec.JacobianPoint
	btcec.ScalarBaseMultNonConst(r, &rG)
	return sum(y, &rG)
}

// unblind returns C = C_ - rA, the mint's signature on the secret.
func unblind(signed *btcec.PublicKey, r *btcec.ModNScalar, mintKey *btcec.PublicKey) (*btcec.PublicKey, error) {
	minus := new(btcec.ModNScalar).NegateVal(r)
	rA := times(minus, mintKey)
	return sum(signed, &rA)
}

// reblind returns C_ = C + rA for a receiver who got r with the note (NUT-12).
func reblind(c *btcec.PublicKey, r *btcec.ModNScalar, mintKey *btcec.PublicKey) (*btcec.PublicKey, error) {
	rA := times(r, mintKey)
	return sum(c, &rA)
}

func times(k *btcec.ModNScalar, p *btcec.PublicKey) (out btcec.JacobianPoint) {
	var j btcec.JacobianPoint
	p.AsJacobian(&j)
	btcec.ScalarMultNonConst(k, &j, &out)
	return out
}

// sum fails if the points cancel out, because infinity is not a key.
func sum(p *btcec.PublicKey, q *btcec.JacobianPoint) (*btcec.PublicKey, error) {
	var j, out btcec.JacobianPoint
	p.AsJacobian(&j)
	btcec.AddNonConst(&j, q, &out)
	return affine(&out)
}

func affine(p *btcec.JacobianPoint) (*btcec.PublicKey, error) {
	if (p.X.IsZero() && p.Y.IsZero()) || p.Z.IsZero() {
		return nil, errPoint
	}
	p.ToAffine()
	return btcec.NewPublicKey(&p.X, &p.Y), nil
}

// verifyDLEQ reports whether the mint's key made the signature: the same a turns G
// into A and B_ into C_ (NUT-12).
func verifyDLEQ(e, s *btcec.ModNScalar, mintKey, blinded, signed *btcec.PublicKey) bool {
	minusE := new(btcec.ModNScalar).NegateVal(e)
	// R1 = sG - eA, R2 = sB_ - eC_
	var sG btcec.JacobianPoint
	btcec.ScalarBaseMultNonConst(s, &sG)
	eA, eC := times(minusE, mintKey), times(minusE, signed)
	sB := times(s, blinded)
	var j1, j2 btcec.JacobianPoint
	btcec.AddNonConst(&sG, &eA, &j1)
	btcec.AddNonConst(&sB, &eC, &j2)
	r1, err1 := affine(&j1)
	r2, err2 := affine(&j2)
	if err1 != nil || err2 != nil {
		return false
	}

	// e is the SHA-256 of the uncompressed points in hex.
	h := sha256.New()
	for _, p := range []*btcec.PublicKey{r1, r2, mintKey, signed} {
		h.Write([]byte(hex.EncodeToString(p.SerializeUncompressed())))
	}
	got := e.Bytes()
	return [32]byte(h.Sum(nil)) == got
}

func parsePoint(s string) (*btcec.PublicKey, error) {
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != btcec.PubKeyBytesLenCompressed {
		return nil, errPoint
	}
	p, err := btcec.ParsePubKey(b)
	if err != nil {
		return nil, errPoint
	}
	return p, nil
}

func pointText(p *btcec.PublicKey) string { return hex.EncodeToString(p.SerializeCompressed()) }

// parseScalar refuses zero and values above the group's order.
func parseScalar(s string) (*btcec.ModNScalar, error) {
	b, err := hex.DecodeString(s)
	var k btcec.ModNScalar
	if err != nil || len(b) != 32 || k.SetByteSlice(b) || k.IsZero() {
		return nil, errors.New("not a scalar of the curve")
	}
	return &k, nil
}

func scalarText(k *btcec.ModNScalar) string {
	b := k.Bytes()
	return hex.EncodeToString(b[:])
}
