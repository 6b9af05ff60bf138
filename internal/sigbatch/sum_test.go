package sigbatch

import (
	"encoding/binary"
	"math/big"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
)

// reference is a point in the library's form.
func reference(p affine) (j btcec.JacobianPoint) {
	x, y := p.x.bytes(), p.y.bytes()
	j.X.SetBytes(&x)
	j.Y.SetBytes(&y)
	j.Z.SetInt(1)
	return j
}

// multiple is k*G, as the library has it; k is not 0.
func multiple(k *btcec.ModNScalar) affine {
	var j btcec.JacobianPoint
	btcec.ScalarBaseMultNonConst(k, &j)
	j.ToAffine()
	var p affine
	p.x.setBytes(j.X.Bytes())
	p.y.setBytes(j.Y.Bytes())
	return p
}

func (p *affine) equal(q *affine) bool { return p.x.equal(&q.x) && p.y.equal(&q.y) }

func scalarOf(b []byte) (k btcec.ModNScalar) {
	k.SetByteSlice(b)
	return k
}

func small(n uint32) (k btcec.ModNScalar) {
	k.SetInt(n)
	return k
}

func TestConstants(t *testing.T) {
	one := small(1)
	if g := multiple(&one); !g.equal(&generator) {
		t.Error("generator is not G")
	}
	s := newSplitter()
	if p, q := multiple(&s.lambda), generator.timesLambda(); !p.equal(&q) {
		t.Error("lambda*G is not (beta*x, y)")
	}
	n := new(big.Int).SetBytes(groupOrder())
	if n.Cmp(btcec.S256().N) != 0 || prime.Cmp(btcec.S256().P) != 0 {
		t.Error("order or prime is another")
	}
	// b1 and b2 come with a1 and a2 such that a + b*lambda = 0: all four short.
	for _, minus := range []btcec.ModNScalar{s.minusB1, s.minusB2} {
		a := minus
		if a.Mul(&s.lambda); a.IsOverHalfOrder() {
			a.Negate()
		}
		if w := words(&a); w[2] > 1 || w[3] != 0 {
			t.Errorf("a vector is long: %v", a)
		}
	}
	// g1 = 2^384*b2/n, g2 = 2^384*(-b1)/n, rounded.
	for g, b := range map[[4]uint64]btcec.ModNScalar{s.g1: *new(btcec.ModNScalar).NegateVal(&s.minusB2), s.g2: s.minusB1} {
		bytes := b.Bytes()
		want := new(big.Int).Lsh(new(big.Int).SetBytes(bytes[:]), 385)
		want.Div(want, n).Add(want, big.NewInt(1)).Rsh(want, 1)
		e := element(g)
		var raw [32]byte
		for i := range e {
			binary.BigEndian.PutUint64(raw[24-8*i:], e[i])
		}
		if want.Cmp(new(big.Int).SetBytes(raw[:])) != 0 {
			t.Errorf("%x should be %x", raw, want)
		}
	}
}

func checkSplit(t *testing.T, k btcec.ModNScalar) {
	t.Helper()
	s := newSplitter()
	k1, k2, ok := s.split(&k)
	if !ok {
		t.Fatalf("%v: a half is too long", k)
	}
	sum, second := k1.scalar(), k2.scalar()
	sum.Add(second.Mul(&s.lambda))
	if !sum.Equals(&k) {
		t.Fatalf("%v: the halves are %v and %v", k, k1, k2)
	}
	for _, h := range []half{k1, k2} {
		want := new(big.Int).SetUint64(h.high)
		want.Lsh(want, 64).Add(want, new(big.Int).SetUint64(h.low))
		for width := 2; width <= maxWidth; width++ {
			p := part{low: h.low, high: h.high}
			total := new(big.Int)
			for place := 0; place <= halfBits; place += width {
				digit := p.digit(place, width)
				if most := 1 << (width - 1); digit > most || digit <= -most {
					t.Fatalf("%v: digit %d of %d bits at %d", h, digit, width, place)
				}
				d := big.NewInt(int64(digit))
				total.Add(total, d.Lsh(d, uint(place)))
			}
			if total.Cmp(want) != 0 || p.carry != 0 {
				t.Fatalf("%v: the digits of %d bits make %x", h, width, total)
			}
		}
	}
}

func FuzzSplit(f *testing.F) {
	for _, b := range edges() {
		f.Add(b[:])
	}
	lambda := newSplitter().lambda.Bytes()
	f.Add(lambda[:])
	f.Fuzz(func(t *testing.T, b []byte) { checkSplit(t, scalarOf(b)) })
}

// FuzzAdd adds two points in every way there is here, and as the library does.
// Few scalars are small, so that equal and opposite points come up.
func FuzzAdd(f *testing.F) {
	for _, pair := range [][2]int8{{1, 1}, {1, -1}, {1, 2}, {2, -1}, {3, 3}, {-5, 5}, {7, -8}} {
		f.Add(pair[0], pair[1], []byte{})
	}
	f.Add(int8(3), int8(4), []byte("another"))
	f.Fuzz(func(t *testing.T, m, n int8, more []byte) {
		if m == 0 || n == 0 {
			return
		}
		factor := scalarOf(more)
		if factor.IsZero() {
			factor.SetInt(1)
		}
		a, b := times(m, factor), times(n, factor)
		ra, rb := reference(a), reference(b)
		var want btcec.JacobianPoint
		btcec.AddNonConst(&ra, &rb, &want)
		var s adder
		s.groups = [][]affine{{a, b}}
		s.sumGroups()
		if (len(s.groups[0]) == 0) != want.Z.IsZero() {
			t.Fatal("infinite, or not")
		}
		var j jacobian
		j.add(&a)
		j.add(&b)
		if j.isInfinity() != want.Z.IsZero() {
			t.Fatal("infinite in jacobian coordinates, or not")
		}
		if want.Z.IsZero() {
			return
		}
		want.ToAffine()
		sum := s.groups[0][0]
		if got := reference(sum); !got.X.Equals(&want.X) || !got.Y.Equals(&want.Y) {
			t.Fatalf("%d + %d", m, n)
		}
		// The same point, added and taken away again with z other than 1.
		j.add(&a)
		minus := sum.negated()
		j.add(&minus)
		minus = a.negated()
		j.add(&minus)
		if !j.isInfinity() {
			t.Fatalf("%d + %d in jacobian coordinates", m, n)
		}
	})
}

func times(n int8, factor btcec.ModNScalar) affine {
	k := small(uint32(max(int(n), -int(n))))
	if n < 0 {
		k.Negate()
	}
	return multiple(k.Mul(&factor))
}

// FuzzSum makes products whose sum is known, with the same points and the same
// factors among them, and holds that the sum is zero when it is.
func FuzzSum(f *testing.F) {
	f.Add([]byte("\x01\x02\x03\x04"))
	f.Add([]byte("\x01\x01\x01\x01\x01\x01\x01\x01\x81\x81\x81"))
	f.Add([]byte("\x00\x80\x7f\xff\x10\x20\x30\x40\x50\x60\x70"))
	f.Fuzz(func(t *testing.T, recipe []byte) {
		if len(recipe) > 40 {
			return
		}
		s := newSplitter()
		var total btcec.ModNScalar
		var products []product
		put := func(point, factor btcec.ModNScalar) {
			k1, k2, _ := s.split(&factor)
			products = append(products, product{multiple(&point), k1, k2})
			total.Add(factor.Mul(&point))
		}
		for _, c := range recipe {
			point := small(uint32(c&7) + 1) // 8 points, their opposites
			if c&8 != 0 {
				point.Negate()
			}
			factor := small(uint32(c >> 4))
			if c&0x80 != 0 {
				factor = scalarOf([]byte{c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, c})
			}
			put(point, factor)
		}
		var a adder
		for width := 2; width <= maxWidth; width++ {
			a.decompose(products)
			if zero := a.partsAreZero(width); zero != total.IsZero() {
				t.Fatalf("zero by digits of %d bits: %v", width, zero)
			}
		}
		put(small(1), *new(btcec.ModNScalar).NegateVal(&total))
		if !a.sumIsZero(products) {
			t.Fatal("not zero with what was lacking")
		}
		put(small(5), small(1))
		if a.sumIsZero(products) {
			t.Fatal("zero with one too many")
		}
	})
}

// The factors are what keeps false signatures from cancelling out: each must be
// new, long, and another one for each signature.
func TestFactorsAreNew(t *testing.T) {
	seen := map[uint64]bool{}
	for range 2 {
		for _, h := range random(1000) {
			for _, word := range []uint64{h.low, h.high} {
				if seen[word] || h.negative {
					t.Fatalf("%x again", word)
				}
				seen[word] = true
			}
		}
	}
}

// A batch that is used again and again must not grow.
func TestResetLetsGo(t *testing.T) {
	var b Batch
	for i := range 3 {
		key := generator.x.bytes()
		if i == 1 {
			g2 := small(2)
			p := multiple(&g2)
			key = p.x.bytes()
		}
		b.Reset()
		if _, ok := b.keyIndex(Key(append([]byte{2}, key[:]...))); !ok || len(b.keys) != 1 || len(b.indexes) != 1 {
			t.Fatalf("%d keys, %d places", len(b.keys), len(b.indexes))
		}
	}
}
