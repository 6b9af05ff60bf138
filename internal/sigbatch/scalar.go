package sigbatch

import (
	"encoding/binary"
	"math/bits"

	"github.com/btcsuite/btcd/btcec/v2"
)

// half is a signed factor of 128 bits: half as long as the group's order.
type half struct {
	low, high uint64
	negative  bool
}

// scalar is the factor modulo the group's order.
func (h half) scalar() (s btcec.ModNScalar) {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], h.high)
	binary.BigEndian.PutUint64(b[8:], h.low)
	s.SetByteSlice(b[:])
	if h.negative {
		s.Negate()
	}
	return s
}

// halfOf is the inverse of half.scalar. It reports whether the scalar, or its
// negative, has no more than 128 bits.
func halfOf(s btcec.ModNScalar) (h half, ok bool) {
	if h.negative = s.IsOverHalfOrder(); h.negative {
		s.Negate()
	}
	w := words(&s)
	h.low, h.high = w[0], w[1]
	return h, w[2]|w[3] == 0
}

// words returns the four words of the scalar, lowest first.
func words(s *btcec.ModNScalar) (w [4]uint64) {
	b := s.Bytes()
	for i := range w {
		w[i] = binary.BigEndian.Uint64(b[24-8*i:])
	}
	return w
}

// splitter splits a factor k into k1 + k2*lambda with halves k1 and k2 (the GLV
// method; Guide to Elliptic Curve Cryptography, algorithm 3.74). lambda is a cube
// root of 1 modulo the group's order n, and lambda*P has the same y as P. (a1, b1)
// and (a2, b2) are the two shortest vectors with a + b*lambda = 0 mod n. g1 and g2
// are 2^384*b2/n and 2^384*(-b1)/n, rounded. A test checks these constants.
type splitter struct {
	lambda, minusB1, minusB2 btcec.ModNScalar
	g1, g2                   [4]uint64
}

func newSplitter() *splitter {
	s := &splitter{
		g1: [4]uint64{0xe893209a45dbb031, 0x3daa8a1471e8ca7f, 0xe86c90e49284eb15, 0x3086d221a7d46bcd},
		g2: [4]uint64{0x1571b4ae8ac47f71, 0x221208ac9df506c6, 0x6f547fa90abfe4c4, 0xe4437ed6010e8828},
	}
	setWords(&s.lambda, [4]uint64{0xdf02967c1b23bd72, 0x122e22ea20816678, 0xa5261c028812645a, 0x5363ad4cc05c30e0})
	setWords(&s.minusB1, [4]uint64{0x6f547fa90abfe4c3, 0xe4437ed6010e8828})
	setWords(&s.minusB2, [4]uint64{0xd765cda83db1562c, 0x8a280ac50774346d, 0xfffffffffffffffe, 0xffffffffffffffff})
	return s
}

// setWords is the inverse of words.
func setWords(s *btcec.ModNScalar, w [4]uint64) {
	var b [32]byte
	for i := range w {
		binary.BigEndian.PutUint64(b[24-8*i:], w[i])
	}
	s.SetBytes(&b)
}

// split reports whether both halves are short enough, as they are for every k.
func (s *splitter) split(k *btcec.ModNScalar) (k1, k2 half, ok bool) {
	w := words(k)
	var c1, c2, second, first btcec.ModNScalar
	setWords(&c1, upper(w, s.g1))
	setWords(&c2, upper(w, s.g2))
	second.Add2(c1.Mul(&s.minusB1), c2.Mul(&s.minusB2))
	first.Mul2(&second, &s.lambda).Negate().Add(k)
	k1, ok1 := halfOf(first)
	k2, ok2 := halfOf(second)
	return k1, k2, ok1 && ok2
}

// upper is x*y/2^384, rounded.
func upper(x, y [4]uint64) [4]uint64 {
	x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
	_, t1, t2, t3, t4 := row(0, 0, 0, 0, x0, x1, x2, x3, y[0])
	_, t2, t3, t4, t5 := row(t1, t2, t3, t4, x0, x1, x2, x3, y[1])
	_, t3, t4, t5, t6 := row(t2, t3, t4, t5, x0, x1, x2, x3, y[2])
	_, _, t5, t6, t7 := row(t3, t4, t5, t6, x0, x1, x2, x3, y[3])
	low, carry := bits.Add64(t6, t5>>63, 0)
	return [4]uint64{low, t7 + carry}
}

// halfBits is the length of a half.
const halfBits = 128

// bits returns the 64 bits from this place up.
func (h half) bits(place int) uint64 {
	if place >= 64 {
		return h.high >> (place - 64)
	}
	return h.low>>place | h.high<<(64-place)
}
