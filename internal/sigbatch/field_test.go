package sigbatch

import (
	"bytes"
	"math/big"
	"testing"
)

// edges are numbers at which a carry or a reduction decides.
func edges() [][32]byte {
	one := big.NewInt(1)
	top := new(big.Int).Lsh(one, 256)
	var list [][32]byte
	for _, around := range []*big.Int{
		new(big.Int), prime, big.NewInt(fold), new(big.Int).Sub(top, prime), new(big.Int).Sub(top, one), new(big.Int).Rsh(prime, 1),
		new(big.Int).Lsh(one, 64), new(big.Int).Lsh(one, 128), new(big.Int).Lsh(one, 192), new(big.Int).SetBytes(groupOrder()),
		new(big.Int).Sub(new(big.Int).Lsh(one, 256), new(big.Int).Lsh(one, 64)),
	} {
		for d := int64(-2); d <= 2; d++ {
			n := new(big.Int).Add(around, big.NewInt(d))
			if n.Sign() >= 0 && n.Cmp(top) < 0 {
				var b [32]byte
				list = append(list, [32]byte(n.FillBytes(b[:])))
			}
		}
	}
	return list
}

func groupOrder() []byte {
	b := order.bytes()
	return b[:]
}

// checkField holds every operation against math/big. x and y may be p or more,
// as what comes out of another operation may.
func checkField(t *testing.T, xb, yb [32]byte) {
	t.Helper()
	var x, y, z element
	if x.setBytes(&xb) != (new(big.Int).SetBytes(xb[:]).Cmp(prime) < 0) {
		t.Fatalf("%x: wrongly in range or not", xb)
	}
	y.setBytes(&yb)
	bx, by := new(big.Int).SetBytes(xb[:]), new(big.Int).SetBytes(yb[:])
	is := func(what string, want *big.Int) {
		t.Helper()
		got := z.bytes()
		var b [32]byte
		if want.Mod(want, prime).FillBytes(b[:]); !bytes.Equal(got[:], b[:]) {
			t.Fatalf("%s of %x and %x is %x, want %x", what, xb, yb, got, b)
		}
	}
	z.add(&x, &y)
	is("sum", new(big.Int).Add(bx, by))
	z.sub(&x, &y)
	is("difference", new(big.Int).Sub(bx, by))
	z.neg(&x)
	is("negative", new(big.Int).Neg(bx))
	z.mul(&x, &y)
	is("product", new(big.Int).Mul(bx, by))
	z.square(&x)
	is("square", new(big.Int).Mul(bx, bx))
	if r := new(big.Int).Mod(bx, prime); r.Sign() != 0 {
		z.invert(&x)
		is("inverse", new(big.Int).ModInverse(r, prime))
	} else if !x.isZero() {
		t.Fatalf("%x is not 0", xb)
	}
	if got, want := z.sqrt(&x), big.Jacobi(new(big.Int).Mod(bx, prime), prime) >= 0; got != want {
		t.Fatalf("%x has a root: %v, want %v", xb, got, want)
	} else if got {
		z.square(&z)
		is("square of the root", bx)
	}
	if x.equal(&y) != (new(big.Int).Mod(bx, prime).Cmp(new(big.Int).Mod(by, prime)) == 0) || x.isOdd() != (new(big.Int).Mod(bx, prime).Bit(0) == 1) {
		t.Fatalf("%x and %x: wrongly equal, or odd", xb, yb)
	}
}

func TestFieldEdges(t *testing.T) {
	list := edges()
	for _, x := range list {
		for _, y := range list {
			checkField(t, x, y)
		}
	}
}

func FuzzField(f *testing.F) {
	for _, b := range edges() {
		f.Add(b[:], []byte("a"))
	}
	f.Fuzz(func(t *testing.T, x, y []byte) {
		var xb, yb [32]byte
		copy(xb[:], x)
		copy(yb[:], y)
		checkField(t, xb, yb)
	})
}

func TestAddOrder(t *testing.T) {
	for _, b := range edges() {
		n := new(big.Int).SetBytes(b[:])
		if n.Cmp(new(big.Int).SetBytes(groupOrder())) >= 0 {
			continue
		}
		var x element
		x.setBytes(&b)
		n.Add(n, new(big.Int).SetBytes(groupOrder()))
		if got, want := x.addOrder(), n.Cmp(prime) < 0; got != want {
			t.Errorf("%x and the order are below p: %v, want %v", b, got, want)
		} else if got {
			if sum := x.bytes(); new(big.Int).SetBytes(sum[:]).Cmp(n) != 0 {
				t.Errorf("%x and the order are %x", b, sum)
			}
		}
	}
}
