package sigbatch

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"

	"github.com/btcsuite/btcd/btcec/v2"
)

// Key is a public key in the compressed form of SEC 1: a byte 2 or 3, then x. An
// x-only key of BIP-340 is the key with the byte 2.
type Key [33]byte

// Valid reports whether the key is a point of the curve.
func (k Key) Valid() bool {
	_, ok := k.point()
	return ok
}

func (k Key) point() (affine, bool) {
	var x element
	if k[0] != 2 && k[0] != 3 || !x.setBytes((*[32]byte)(k[1:])) {
		return affine{}, false
	}
	return lift(&x, k[0] == 3)
}

// Batch collects signatures. Its zero value is empty and ready for use. It is not
// safe for concurrent use.
type Batch struct {
	split     *splitter
	points    map[Key]affine // of keys seen before, Reset or not
	indexes   map[Key]int    // in keys
	keys      []affine
	checks    []check
	divisions []division
	adder     adder
}

// check is the equation r = u*G + v*P, where P is the point of the key.
type check struct {
	r    affine
	u, v btcec.ModNScalar
	key  int
}

// division says that u and v of a check must still be divided by s, which is not
// 0. Divisions are collected because they share one inversion.
type division struct {
	check int
	s     btcec.ModNScalar
}

// Len is the number of signatures in the batch.
func (b *Batch) Len() int { return len(b.checks) }

// maxPoints bounds the keys that a batch caches.
const maxPoints = 1024

// ValidKey is [Key.Valid] with a cache.
func (b *Batch) ValidKey(key Key) bool {
	_, ok := b.point(key)
	return ok
}

// point is [Key.point] with a cache: a provider signs all its receipts with one
// key.
func (b *Batch) point(key Key) (affine, bool) {
	if p, ok := b.points[key]; ok {
		return p, true
	}
	p, ok := key.point()
	if !ok {
		return affine{}, false
	}
	if b.points == nil {
		b.points = map[Key]affine{}
	}
	if len(b.points) == maxPoints {
		clear(b.points)
	}
	b.points[key] = p
	return p, true
}

// Reset empties the batch.
func (b *Batch) Reset() {
	clear(b.indexes)
	b.keys, b.checks, b.divisions = b.keys[:0], b.checks[:0], b.divisions[:0]
}

// AddSchnorr adds a BIP-340 signature over a message of 32 bytes by an x-only
// key. It reports false and adds nothing if a number is out of range or names no
// point, because such a signature is invalid without any sum.
func (b *Batch) AddSchnorr(key, message *[32]byte, sig *[64]byte) bool {
	var c check
	var x element
	if !x.setBytes((*[32]byte)(sig[:32])) || c.u.SetBytes((*[32]byte)(sig[32:])) != 0 {
		return false
	}
	var ok bool
	if c.r, ok = lift(&x, false); !ok {
		return false
	}
	compressed := Key{2}
	copy(compressed[1:], key[:])
	if c.key, ok = b.keyIndex(compressed); !ok {
		return false
	}

	// R = s*G - e*P
	e := challenge(sig, key, message)
	c.v.SetBytes(&e)
	c.v.Negate()
	b.checks = append(b.checks, c)
	return true
}

var challengeTag = sha256.Sum256([]byte("BIP0340/challenge"))

// challenge is the tagged hash of BIP-340.
func challenge(sig *[64]byte, key, message *[32]byte) [32]byte {
	var buf [160]byte
	copy(buf[:], challengeTag[:])
	copy(buf[32:], challengeTag[:])
	copy(buf[64:], sig[:32])
	copy(buf[96:], key[:])
	copy(buf[128:], message[:])
	return sha256.Sum256(buf[:])
}

// Bits of a recovery id, which say what r leaves open about R.
const (
	recoveryOdd      = 1 // y is odd
	recoveryOverflow = 2 // x is r plus the group's order
)

// AddECDSA adds a signature over a hash: r and s of 32 bytes each, and the
// recovery id, 0 to 3, that says which point R is. A high s is accepted. Recovery
// from a signature of a valid batch gives this key. AddECDSA reports false and adds
// nothing if a number is out of range or names no point.
func (b *Batch) AddECDSA(key Key, hash *[32]byte, sig *[64]byte, recovery byte) bool {
	var c check
	var r, s btcec.ModNScalar
	if r.SetBytes((*[32]byte)(sig[:32])) != 0 || s.SetBytes((*[32]byte)(sig[32:])) != 0 || r.IsZero() || s.IsZero() || recovery > 3 {
		return false
	}
	var x element
	x.setBytes((*[32]byte)(sig[:32]))
	if recovery&recoveryOverflow != 0 && !x.addOrder() {
		return false
	}
	var ok bool
	if c.r, ok = lift(&x, recovery&recoveryOdd != 0); !ok {
		return false
	}
	if c.key, ok = b.keyIndex(key); !ok {
		return false
	}

	// R = (hash/s)*G + (r/s)*P
	c.u.SetBytes(hash)
	c.v = r
	b.divisions = append(b.divisions, division{len(b.checks), s})
	b.checks = append(b.checks, c)
	return true
}

// divide carries out all divisions with one inversion (Montgomery's trick).
func (b *Batch) divide() {
	if len(b.divisions) == 0 {
		return
	}
	var product btcec.ModNScalar
	product.SetInt(1)
	before := make([]btcec.ModNScalar, len(b.divisions))
	for i := range b.divisions {
		before[i] = product
		product.Mul(&b.divisions[i].s)
	}

	product.InverseNonConst()
	for i := len(b.divisions) - 1; i >= 0; i-- { // product is the inverse of all s up to i
		o := &b.divisions[i]
		inverse := &before[i]
		inverse.Mul(&product)
		product.Mul(&o.s)
		b.checks[o.check].u.Mul(inverse)
		b.checks[o.check].v.Mul(inverse)
	}

	b.divisions = b.divisions[:0]
}

// keyIndex is the index of the key's point in keys, where it is added once for
// all signatures of the key.
func (b *Batch) keyIndex(key Key) (int, bool) {
	if i, ok := b.indexes[key]; ok {
		return i, true
	}
	p, ok := b.point(key)
	if !ok {
		return 0, false
	}
	if b.indexes == nil {
		b.indexes = map[Key]int{}
	}
	b.indexes[key] = len(b.keys)
	b.keys = append(b.keys, p)
	return len(b.keys) - 1, true
}

// Valid reports whether the signatures in [from, to) are all valid, counted in
// the order of adding. An empty range is valid.
func (b *Batch) Valid(from, to int) bool {
	b.divide()
	checks := b.checks[from:to]
	factors := random(len(checks))

	// The sum of a*r - a*u*G - a*v*P, with one product for G and for each key.
	var g btcec.ModNScalar
	ofKeys := make([]btcec.ModNScalar, len(b.keys))
	used := make([]bool, len(b.keys))
	products := make([]product, 0, len(checks)+len(b.keys)+1)
	for i := range checks {
		c := &checks[i]
		a := factors[i].scalar()
		var u, v btcec.ModNScalar
		g.Add(u.Mul2(&a, &c.u))
		ofKeys[c.key].Add(v.Mul2(&a, &c.v))
		used[c.key] = true
		products = append(products, product{point: c.r.negated(), k1: factors[i]})
	}

	if b.split == nil {
		b.split = newSplitter()
	}
	put := func(p affine, k *btcec.ModNScalar) bool {
		k1, k2, ok := b.split.split(k)
		products = append(products, product{p, k1, k2})
		return ok
	}

	ok := put(generator, &g)
	for i := range used {
		if used[i] {
			ok = put(b.keys[i], &ofKeys[i]) && ok
		}
	}

	return ok && b.adder.sumIsZero(products)
}

// random makes n numbers of 128 bits. They must be unpredictable, or somebody
// could sign so that two false equations cancel out.
func random(n int) []half {
	buf := make([]byte, 16*n)
	_, _ = rand.Read(buf) // never fails
	numbers := make([]half, n)
	for i := range numbers {
		numbers[i].low = binary.LittleEndian.Uint64(buf[16*i:])
		numbers[i].high = binary.LittleEndian.Uint64(buf[16*i+8:])
	}
	return numbers
}
