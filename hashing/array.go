package hashing

import (
	"crypto/sha256"
	"hash"
)

// An ArrayHasher digests the canonical form of a JSON array of objects, given
// one at a time. The zero value is an empty array. It is not safe for concurrent
// use.
type ArrayHasher struct {
	h      hash.Hash // nil until the first element
	before [1]byte   // '[' or ',' before the next element
}

// AddObject appends an object.
func (a *ArrayHasher) AddObject(o *Object) { a.add(o.text) }

// AddObjectWithout appends an object without the members of these names.
func (a *ArrayHasher) AddObjectWithout(o *Object, names ...string) { a.add(o.Without(names...)) }

// add appends one element's canonical form.
func (a *ArrayHasher) add(text []byte) {
	a.before[0] = ','
	if a.h == nil {
		a.h, a.before[0] = sha256.New(), '['
	}
	a.h.Write(a.before[:])
	a.h.Write(text)
}

// Sum returns the digest of the array so far; more elements may follow.
func (a *ArrayHasher) Sum() Digest {
	if a.h == nil {
		return Bytes([]byte("[]"))
	}

	// The closing bracket goes to a clone, so that more elements can follow.
	h, err := a.h.(hash.Cloner).Clone()
	if err != nil {
		panic(err) // crypto/sha256's Clone has no failing path
	}
	h.Write([]byte{']'})
	var d Digest
	h.Sum(d[:0])
	return d
}
