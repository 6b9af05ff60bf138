package sigbatch

import (
	"encoding/binary"
	"math/bits"
)

// element is a number modulo the field's prime p = 2^256 - 2^32 - 977, as four
// words, lowest first. A value of p or more is allowed and means the value less p;
// reduced gives the unique form.
type element [4]uint64

// fold is 2^256 modulo p. A carry out of the top word is worth this much.
const fold = 1<<32 + 977

// modulus is p, the second form of 0.
var modulus = element{^uint64(fold - 1), ^uint64(0), ^uint64(0), ^uint64(0)}

// setBytes reads 32 bytes, big-endian. It reports whether they are below p.
func (z *element) setBytes(b *[32]byte) bool {
	for i := range z {
		z[i] = binary.BigEndian.Uint64(b[24-8*i:])
	}
	return *z == z.reduced()
}

func (z *element) bytes() (b [32]byte) {
	r := z.reduced()
	for i := range r {
		binary.BigEndian.PutUint64(b[24-8*i:], r[i])
	}
	return b
}

// reduced returns the form below p.
func (z *element) reduced() element {
	// z-p is z+fold-2^256, so z is at least p exactly if the sum has a carry.
	var r element
	var c uint64
	r[0], c = bits.Add64(z[0], fold, 0)
	r[1], c = bits.Add64(z[1], 0, c)
	r[2], c = bits.Add64(z[2], 0, c)
	r[3], c = bits.Add64(z[3], 0, c)
	if c == 0 {
		return *z
	}
	return r
}

func (z *element) isZero() bool          { return *z == element{} || *z == modulus }
func (z *element) isOdd() bool           { return z.reduced()[0]&1 == 1 }
func (z *element) equal(x *element) bool { return z.reduced() == x.reduced() }

// add: z = x + y.
func (z *element) add(x, y *element) {
	z0, c := bits.Add64(x[0], y[0], 0)
	z1, c := bits.Add64(x[1], y[1], c)
	z2, c := bits.Add64(x[2], y[2], c)
	z3, c := bits.Add64(x[3], y[3], c)
	z0, c = bits.Add64(z0, -c&fold, 0)
	z1, c = bits.Add64(z1, 0, c)
	z2, c = bits.Add64(z2, 0, c)
	z3, c = bits.Add64(z3, 0, c)
	// A second carry leaves less than fold, so that there is no third.
	z[0], z[1], z[2], z[3] = z0+(-c&fold), z1, z2, z3
}

// sub: z = x - y.
func (z *element) sub(x, y *element) {
	z0, b := bits.Sub64(x[0], y[0], 0)
	z1, b := bits.Sub64(x[1], y[1], b)
	z2, b := bits.Sub64(x[2], y[2], b)
	z3, b := bits.Sub64(x[3], y[3], b)
	z0, b = bits.Sub64(z0, -b&fold, 0)
	z1, b = bits.Sub64(z1, 0, b)
	z2, b = bits.Sub64(z2, 0, b)
	z3, b = bits.Sub64(z3, 0, b)
	// A second borrow leaves more than 2^256-fold, so that there is no third.
	z[0], z[1], z[2], z[3] = z0-(-b&fold), z1, z2, z3
}

// neg: z = -x.
func (z *element) neg(x *element) { z.sub(&element{}, x) }

// order is the number of points of the curve.
var order = element{0xbfd25e8cd0364141, 0xbaaedce6af48a03b, 0xfffffffffffffffe, 0xffffffffffffffff}

// addOrder adds the group's order to a number below it. It reports whether the
// sum is below p.
func (z *element) addOrder() bool {
	var c uint64
	z[0], c = bits.Add64(z[0], order[0], 0)
	z[1], c = bits.Add64(z[1], order[1], c)
	z[2], c = bits.Add64(z[2], order[2], c)
	z[3], c = bits.Add64(z[3], order[3], c)
	return c == 0 && *z == z.reduced()
}

// mul: z = x * y. It is schoolbook multiplication with a row for each word of y,
// then the upper 256 bits are folded back. The rows repeat the code of row because
// the compiler does not inline it, and calls would take a third of the time.
func (z *element) mul(x, y *element) {
	x0, x1, x2, x3 := x[0], x[1], x[2], x[3]

	h0, l0 := bits.Mul64(x0, y[0])
	h1, l1 := bits.Mul64(x1, y[0])
	h2, l2 := bits.Mul64(x2, y[0])
	h3, l3 := bits.Mul64(x3, y[0])
	t0 := l0
	t1, c := bits.Add64(h0, l1, 0)
	t2, c := bits.Add64(h1, l2, c)
	t3, c := bits.Add64(h2, l3, c)
	t4, _ := bits.Add64(h3, 0, c)

	h0, l0 = bits.Mul64(x0, y[1])
	h1, l1 = bits.Mul64(x1, y[1])
	h2, l2 = bits.Mul64(x2, y[1])
	h3, l3 = bits.Mul64(x3, y[1])
	t1, c = bits.Add64(t1, l0, 0)
	t2, c = bits.Add64(t2, l1, c)
	t3, c = bits.Add64(t3, l2, c)
	t4, c = bits.Add64(t4, l3, c)
	t5, _ := bits.Add64(h3, 0, c)
	t2, c = bits.Add64(t2, h0, 0)
	t3, c = bits.Add64(t3, h1, c)
	t4, c = bits.Add64(t4, h2, c)
	t5, _ = bits.Add64(t5, 0, c)

	h0, l0 = bits.Mul64(x0, y[2])
	h1, l1 = bits.Mul64(x1, y[2])
	h2, l2 = bits.Mul64(x2, y[2])
	h3, l3 = bits.Mul64(x3, y[2])
	t2, c = bits.Add64(t2, l0, 0)
	t3, c = bits.Add64(t3, l1, c)
	t4, c = bits.Add64(t4, l2, c)
	t5, c = bits.Add64(t5, l3, c)
	t6, _ := bits.Add64(h3, 0, c)
	t3, c = bits.Add64(t3, h0, 0)
	t4, c = bits.Add64(t4, h1, c)
	t5, c = bits.Add64(t5, h2, c)
	t6, _ = bits.Add64(t6, 0, c)

	h0, l0 = bits.Mul64(x0, y[3])
	h1, l1 = bits.Mul64(x1, y[3])
	h2, l2 = bits.Mul64(x2, y[3])
	h3, l3 = bits.Mul64(x3, y[3])
	t3, c = bits.Add64(t3, l0, 0)
	t4, c = bits.Add64(t4, l1, c)
	t5, c = bits.Add64(t5, l2, c)
	t6, c = bits.Add64(t6, l3, c)
	t7, _ := bits.Add64(h3, 0, c)
	t4, c = bits.Add64(t4, h0, 0)
	t5, c = bits.Add64(t5, h1, c)
	t6, c = bits.Add64(t6, h2, c)
	t7, _ = bits.Add64(t7, 0, c)

	h0, l0 = bits.Mul64(t4, fold)
	h1, l1 = bits.Mul64(t5, fold)
	h2, l2 = bits.Mul64(t6, fold)
	h3, l3 = bits.Mul64(t7, fold)
	t0, c = bits.Add64(t0, l0, 0)
	t1, c = bits.Add64(t1, l1, c)
	t2, c = bits.Add64(t2, l2, c)
	t3, c = bits.Add64(t3, l3, c)
	t4, _ = bits.Add64(h3, 0, c)
	t1, c = bits.Add64(t1, h0, 0)
	t2, c = bits.Add64(t2, h1, c)
	t3, c = bits.Add64(t3, h2, c)
	t4, _ = bits.Add64(t4, 0, c)
	z[0], z[1], z[2], z[3] = folded(t0, t1, t2, t3, t4)
}

// square: z = x^2.
func (z *element) square(x *element) { z.squareTimes(x, 1) }

// squareTimes: z = x^(2^n). Products of two different words count twice, so each
// is computed once and doubled.
func (z *element) squareTimes(x *element, n int) {
	x0, x1, x2, x3 := x[0], x[1], x[2], x[3]
	for range n {
		h01, l01 := bits.Mul64(x0, x1)
		h02, l02 := bits.Mul64(x0, x2)
		h03, l03 := bits.Mul64(x0, x3)
		h12, l12 := bits.Mul64(x1, x2)
		h13, l13 := bits.Mul64(x1, x3)
		h23, l23 := bits.Mul64(x2, x3)
		t1 := l01
		t2, c := bits.Add64(h01, l02, 0)
		t3, c := bits.Add64(h02, l03, c)
		t4, c := bits.Add64(h03, l13, c)
		t5, c := bits.Add64(l23, 0, c)
		t6, _ := bits.Add64(h23, 0, c)
		t3, c = bits.Add64(t3, l12, 0)
		t4, c = bits.Add64(t4, h12, c)
		t5, c = bits.Add64(t5, h13, c)
		t6, _ = bits.Add64(t6, 0, c)

		t1, c = bits.Add64(t1, t1, 0)
		t2, c = bits.Add64(t2, t2, c)
		t3, c = bits.Add64(t3, t3, c)
		t4, c = bits.Add64(t4, t4, c)
		t5, c = bits.Add64(t5, t5, c)
		t6, t7 := bits.Add64(t6, t6, c)

		h0, t0 := bits.Mul64(x0, x0)
		h1, l1 := bits.Mul64(x1, x1)
		h2, l2 := bits.Mul64(x2, x2)
		h3, l3 := bits.Mul64(x3, x3)
		t1, c = bits.Add64(t1, h0, 0)
		t2, c = bits.Add64(t2, l1, c)
		t3, c = bits.Add64(t3, h1, c)
		t4, c = bits.Add64(t4, l2, c)
		t5, c = bits.Add64(t5, h2, c)
		t6, c = bits.Add64(t6, l3, c)
		t7, _ = bits.Add64(t7, h3, c)

		h0, l0 := bits.Mul64(t4, fold)
		h1, l1 = bits.Mul64(t5, fold)
		h2, l2 = bits.Mul64(t6, fold)
		h3, l3 = bits.Mul64(t7, fold)
		t0, c = bits.Add64(t0, l0, 0)
		t1, c = bits.Add64(t1, l1, c)
		t2, c = bits.Add64(t2, l2, c)
		t3, c = bits.Add64(t3, l3, c)
		t4, _ = bits.Add64(h3, 0, c)
		t1, c = bits.Add64(t1, h0, 0)
		t2, c = bits.Add64(t2, h1, c)
		t3, c = bits.Add64(t3, h2, c)
		t4, _ = bits.Add64(t4, 0, c)
		x0, x1, x2, x3 = folded(t0, t1, t2, t3, t4)
	}

	z[0], z[1], z[2], z[3] = x0, x1, x2, x3
}

// folded reduces t, which is less than fold*2^256, to four words.
func folded(t0, t1, t2, t3, t4 uint64) (z0, z1, z2, z3 uint64) {
	hi, lo := bits.Mul64(t4, fold) // at most 65 bits, since t4 is at most fold
	var c uint64
	z0, c = bits.Add64(t0, lo, 0)
	z1, c = bits.Add64(t1, hi, c)
	z2, c = bits.Add64(t2, 0, c)
	z3, c = bits.Add64(t3, 0, c)
	// After a carry less than that is left, so the second carry goes no further.
	z0, c = bits.Add64(z0, -c&fold, 0)
	z1, _ = bits.Add64(z1, 0, c)
	return z0, z1, z2, z3
}

// row returns t + x*y in five words.
func row(t0, t1, t2, t3, x0, x1, x2, x3, y uint64) (z0, z1, z2, z3, z4 uint64) {
	h0, l0 := bits.Mul64(x0, y)
	h1, l1 := bits.Mul64(x1, y)
	h2, l2 := bits.Mul64(x2, y)
	h3, l3 := bits.Mul64(x3, y)
	var c, d uint64
	z0, c = bits.Add64(t0, l0, 0)
	z1, c = bits.Add64(t1, l1, c)
	z2, c = bits.Add64(t2, l2, c)
	z3, c = bits.Add64(t3, l3, c)
	z1, d = bits.Add64(z1, h0, 0)
	z2, d = bits.Add64(z2, h1, d)
	z3, d = bits.Add64(z3, h2, d)
	return z0, z1, z2, z3, h3 + c + d
}
