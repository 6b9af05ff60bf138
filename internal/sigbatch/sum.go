package sigbatch

import "slices"

// product is a point times k1 + k2*lambda.
type product struct {
	point  affine
	k1, k2 half
}

// part is a point times a factor of 128 bits. Its digits must be read from the
// lowest place up, because each digit can carry into the next.
type part struct {
	point     affine
	low, high uint64 // the factor
	carry     uint64 // out of the last digit
}

// term adds a point, or its opposite, to a group.
type term struct {
	group    int
	negative bool
	point    *affine
}

// bucket is the sum of all points whose factors have this digit at this place.
type bucket struct {
	point        affine
	place, digit int
}

// sumIsZero reports whether the products add up to the point at infinity.
func (s *adder) sumIsZero(products []product) bool {
	s.decompose(products)
	return s.partsAreZero(windowWidth(len(s.parts)))
}

// partsAreZero is Pippenger's algorithm with windows of width bits, in three
// rounds of additions:
//
//  1. fillBuckets adds, at each place, the points with the same digit.
//  2. shorten splits the digit of each bucket into two digits of half the width,
//     and adds the buckets whose short digits are the same.
//  3. Each bucket is added at every place where its digit, in non-adjacent form,
//     has a 1 or -1.
//
// Double and add, from the highest place down, then joins the sums of the places.
func (s *adder) partsAreZero(width int) bool {
	s.fillBuckets(width)
	s.shorten(width)
	s.terms = s.terms[:0]

	for i := range s.buckets {
		b := &s.buckets[i]
		place := b.place
		for digit := b.digit; digit != 0; digit >>= 1 {
			if digit&1 == 1 {
				negative := digit&3 == 3 // -1 here makes the next bit a 0
				if s.terms = append(s.terms, term{place, negative, &b.point}); negative {
					digit += 2
				}
			}
			place++
		}
	}

	s.group(halfBits + width + 1)
	s.sumGroups()

	var sum jacobian
	for _, g := range slices.Backward(s.groups) {
		sum.double()
		for i := range g { // at most one
			sum.add(&g[i])
		}
	}

	return sum.isInfinity()
}

// shorten splits the digits of the buckets, which have width bits and no sign,
// into two: the lower has half of the bits and a sign, which the point takes.
func (s *adder) shorten(width int) {
	low := width / 2
	digits := 1 << (width - 1 - low) // of the higher half; the lower has no more
	s.terms = s.terms[:0]
	put := func(b *bucket, place, digit int) {
		if digit != 0 {
			s.terms = append(s.terms, term{place*digits + max(digit, -digit) - 1, digit < 0, &b.point})
		}
	}

	for i := range s.buckets {
		b := &s.buckets[i]
		lower := b.digit & (1<<low - 1)
		if lower > 1<<(low-1) {
			lower -= 1 << low
		}
		put(b, b.place, lower)
		put(b, b.place+low, (b.digit-lower)>>low)
	}

	s.group((halfBits + width) * digits)
	s.sumGroups()
	s.buckets = s.buckets[:0]

	for i, g := range s.groups {
		if len(g) == 1 {
			s.buckets = append(s.buckets, bucket{g[0], i / digits, i%digits + 1})
		}
	}
}

// decompose sets parts to the halves of the products.
func (s *adder) decompose(products []product) {
	s.parts = s.parts[:0]
	put := func(p affine, h half) {
		if h.low|h.high == 0 {
			return
		}
		if h.negative {
			p = p.negated()
		}
		s.parts = append(s.parts, part{point: p, low: h.low, high: h.high})
	}
	for i := range products {
		put(products[i].point, products[i].k1)
		put(products[i].point.timesLambda(), products[i].k2)
	}
}

// maxWidth bounds the bits of a digit, since a place has 2^(width-1) groups.
const maxWidth = 12

// windowWidth is the number of bits in a digit that costs the fewest additions.
func windowWidth(parts int) int {
	best, least := 0, 0
	for width := 2; width <= maxWidth; width++ {
		// The sign of a digit goes to its point, so a place has 2^(width-1)
		// buckets, and each bucket is added about twice more.
		if additions := (halfBits/width + 1) * (parts + 2<<(width-1)); best == 0 || additions < least {
			best, least = width, additions
		}
	}
	return best
}

// minTerms are enough terms to make their shared inversion cheap; more would only
// take memory.
const minTerms = 1024

// fillBuckets sums the points of each digit at each place. It works on as many
// places at a time as give minTerms.
func (s *adder) fillBuckets(width int) {
	s.buckets = s.buckets[:0]

	digits := 1 << (width - 1) // without their signs
	for place := 0; place <= halfBits; {
		first, groups := place, 0
		s.terms = s.terms[:0]

		for ; place <= halfBits && len(s.terms) < minTerms; place += width {
			for i := range s.parts {
				p := &s.parts[i]
				if d := p.digit(place, width); d != 0 {
					s.terms = append(s.terms, term{groups + max(d, -d) - 1, d < 0, &p.point})
				}
			}
			groups += digits
		}

		s.group(groups)
		s.sumGroups()

		for i, g := range s.groups {
			if len(g) == 1 {
				s.buckets = append(s.buckets, bucket{g[0], first + i/digits*width, i%digits + 1})
			}
		}
	}
}

// digit is the signed digit of width bits that begins at this place. It is above
// -2^(width-1) and at most 2^(width-1).
func (p *part) digit(place, width int) int {
	digit := half{low: p.low, high: p.high}.bits(place)&(1<<width-1) + p.carry
	p.carry = 0
	if digit > 1<<(width-1) {
		p.carry = 1
	}
	return int(digit) - int(p.carry)<<width
}

// group sorts the points of the terms into that many groups.
func (s *adder) group(groups int) {
	s.ends = slices.Grow(s.ends[:0], groups)[:groups]
	clear(s.ends)
	for i := range s.terms {
		s.ends[s.terms[i].group]++
	}
	s.points = slices.Grow(s.points[:0], len(s.terms))[:len(s.terms)]
	s.groups = s.groups[:0]
	end := 0
	for i, n := range s.ends {
		s.groups = append(s.groups, s.points[end:end+n])
		s.ends[i], end = end, end+n
	}

	for _, put := range s.terms {
		to := &s.points[s.ends[put.group]]
		*to = *put.point
		if put.negative {
			to.y.neg(&to.y)
		}
		s.ends[put.group]++
	}
}
