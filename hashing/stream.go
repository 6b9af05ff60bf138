package hashing

import (
	"crypto/sha256"
	"hash"
	"io"
)

// SumReader returns the digest of the canonical form of the one document that
// r holds, of at most limit bytes. It equals [Sum] of the same bytes.
//
// Memory is bounded by a fixed window and the canonical text of the largest
// object outside every other object: an array of a million small objects needs
// no more than one of them. Errors are *[SyntaxError], [ErrTooLarge], or wrap
// the reader's.
func SumReader(r io.Reader, limit int64) (Digest, error) {
	h := sha256.New()
	e := engine{src: readerSource(r, limit), sink: h, out: make([]byte, 0, flushSize+flushSize/8)}
	if err := e.document(); err != nil {
		return Digest{}, err
	}
	return digestOf(h), nil
}

// An ArrayHasher digests the canonical form of a JSON array, given one element
// at a time. The zero value is an empty array. It is not safe for concurrent
// use.
type ArrayHasher struct {
	h      hash.Hash // nil until the first element
	e      engine    // its buffers serve every element
	c      canon
	before [1]byte // what stands before an element
}

// Add appends one element, any JSON document that passes [Check]. After an
// error (*[SyntaxError]) the array is as it was before.
func (a *ArrayHasher) Add(doc []byte) error {
	defer func() { a.e.src, a.c.doc = source{}, nil }() // the caller's bytes are not ours to keep
	if a.c.accepts(doc) {
		a.add(doc)
		return nil
	}
	a.e.begin(doc)
	if err := a.e.document(); err != nil {
		return err
	}
	a.add(a.e.out)
	return nil
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
	// Cloning keeps the closing bracket out of what continues.
	h, err := a.h.(hash.Cloner).Clone()
	if err != nil {
		panic(err) // crypto/sha256's Clone has no failing path
	}
	h.Write([]byte{']'})
	return digestOf(h)
}

func digestOf(h hash.Hash) Digest {
	var d Digest
	h.Sum(d[:0])
	return d
}
