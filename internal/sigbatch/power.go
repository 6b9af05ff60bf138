package sigbatch

import "math/big"

// invert: z = 1/x; 0 for 0.
func (z *element) invert(x *element) {
	b := x.bytes()
	n := new(big.Int).SetBytes(b[:])
	if n.Sign() == 0 {
		*z = element{}
		return
	}
	n.ModInverse(n, prime).FillBytes(b[:])
	z.setBytes(&b)
}

var prime = new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(fold))

// sqrt sets z to a square root of x, and reports whether x has one. The candidate
// is x^((p+1)/4), whose exponent has the bits: 223 ones, a zero, 22 ones, four
// zeros, two ones and two zeros.
func (z *element) sqrt(x *element) bool {
	// xN is x^(2^N-1), whose exponent is N ones.
	ones := func(a *element, n int, b *element) (r element) {
		r.squareTimes(a, n)
		r.mul(&r, b)
		return r
	}
	x2 := ones(x, 1, x)
	x3 := ones(&x2, 1, x)
	x6 := ones(&x3, 3, &x3)
	x9 := ones(&x6, 3, &x3)
	x11 := ones(&x9, 2, &x2)
	x22 := ones(&x11, 11, &x11)
	x44 := ones(&x22, 22, &x22)
	x88 := ones(&x44, 44, &x44)
	x176 := ones(&x88, 88, &x88)
	x220 := ones(&x176, 44, &x44)
	x223 := ones(&x220, 3, &x3)
	r := ones(&x223, 23, &x22)
	r = ones(&r, 6, &x2)
	r.squareTimes(&r, 2)
	var square element
	square.square(&r)
	*z = r
	return square.equal(x)
}
