package sigbatch

import "slices"

// term is a point times k1 + k2*lambda.
type term struct {
	point  affine
	k1, k2 half
}

// part is a point times a factor, whose digits are asked for from the lowest up.
type part struct {
	point     affine
	low, high uint64 // the factor
	carry     uint64 // from the digits so far
}

// summand is a point, or its opposite, for a group.
type summand struct {
	group    int
	negative bool
	point    *affine
}

// alike is the sum of the points that have the same digit at the same place.
type alike struct {
	point        affine
	place, digit int
}

// sumIsZero reports whether the terms add up to the point at infinity.
func (s *adder) sumIsZero(terms []term) bool {
	s.takeApart(terms)
	return s.partsAreZero(widthFor(len(s.parts)))
}

// partsAreZero is Pippenger's way, for digits of some bits: at each place, the
// points that have the same digit are added up. Each of these sums, fewer than
// there were points, has its digit taken apart into two shorter ones, and those
// with the same are added up again. What is left goes to the places where its
// digit has a bit, and is added up there; and what stands there is put together
// from the highest place down.
func (s *adder) partsAreZero(width int) bool {
	s.sumAlike(width)
	s.shorten(width)
	s.summands = s.summands[:0]

	for i := range s.alike {
		a := &s.alike[i]
		place := a.place
		for digit := a.digit; digit != 0; digit >>= 1 {
			if digit&1 == 1 { // the next bit is a 0, if there is 1 or -1 here
				negative := digit&3 == 3
				if s.summands = append(s.summands, summand{place, negative, &a.point}); negative {
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
		for i := range g { // one, or none
			sum.add(&g[i])
		}
	}

	return sum.isInfinity()
}

// shorten takes the digits of alike, which have width bits and no sign, apart
// into two: the lower has half of the bits, and a sign that is the point's.
func (s *adder) shorten(width int) {
	low := width / 2
	digits := 1 << (width - 1 - low) // the higher, and not fewer than the lower
	s.summands = s.summands[:0]
	put := func(a *alike, place, digit int) {
		if digit != 0 {
			s.summands = append(s.summands, summand{place*digits + max(digit, -digit) - 1, digit < 0, &a.point})
		}
	}

	for i := range s.alike {
		a := &s.alike[i]
		lower := a.digit & (1<<low - 1)
		if lower > 1<<(low-1) {
			lower -= 1 << low
		}
		put(a, a.place, lower)
		put(a, a.place+low, (a.digit-lower)>>low)
	}

	s.group((halfBits + width) * digits)
	s.sumGroups()
	s.alike = s.alike[:0]

	for i, g := range s.groups {
		if len(g) == 1 {
			s.alike = append(s.alike, alike{g[0], i / digits, i%digits + 1})
		}
	}
}

// takeApart sets parts to the terms' halves.
func (s *adder) takeApart(terms []term) {
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
	for i := range terms {
		put(terms[i].point, terms[i].k1)
		put(terms[i].point.timesLambda(), terms[i].k2)
	}
}

// widest is how many bits a digit has at most: there are half as many groups.
const widest = 12

// widthFor is how many bits a digit should have for so many parts.
func widthFor(parts int) int {
	best, least := 0, 0
	for width := 2; width <= widest; width++ {
		// A digit's sign is a part's own, and the sum of its points is added up
		// twice again.
		if additions := (halfBits/width + 1) * (parts + 2<<(width-1)); best == 0 || additions < least {
			best, least = width, additions
		}
	}
	return best
}

// atOnce is how many summands make an inversion among them cost little; more
// than needed only take memory.
const atOnce = 1024

// sumAlike sets alike to the sums for all digits at all places.
func (s *adder) sumAlike(width int) {
	s.alike = s.alike[:0]

	digits := 1 << (width - 1) // but for their signs
	for place := 0; place <= halfBits; {
		first, groups := place, 0
		s.summands = s.summands[:0]

		for ; place <= halfBits && len(s.summands) < atOnce; place += width {
			for i := range s.parts {
				p := &s.parts[i]
				if d := p.digit(place, width); d != 0 {
					s.summands = append(s.summands, summand{groups + max(d, -d) - 1, d < 0, &p.point})
				}
			}
			groups += digits
		}

		s.group(groups)
		s.sumGroups()

		for i, g := range s.groups {
			if len(g) == 1 {
				s.alike = append(s.alike, alike{g[0], first + i/digits*width, i%digits + 1})
			}
		}
	}
}

// digit is the next one, of width bits from this place on: more than
// -2^(width-1), and that at most in the other direction.
func (p *part) digit(place, width int) int {
	digit := half{low: p.low, high: p.high}.bits(place)&(1<<width-1) + p.carry
	p.carry = 0
	if digit > 1<<(width-1) {
		p.carry = 1
	}
	return int(digit) - int(p.carry)<<width
}

// group puts the summands into so many groups.
func (s *adder) group(groups int) {
	s.ends = slices.Grow(s.ends[:0], groups)[:groups]
	clear(s.ends)
	for i := range s.summands {
		s.ends[s.summands[i].group]++
	}
	s.points = slices.Grow(s.points[:0], len(s.summands))[:len(s.summands)]
	s.groups = s.groups[:0]
	end := 0
	for i, n := range s.ends {
		s.groups = append(s.groups, s.points[end:end+n])
		s.ends[i], end = end, end+n
	}

	for _, put := range s.summands {
		to := &s.points[s.ends[put.group]]
		*to = *put.point
		if put.negative {
			to.y.neg(&to.y)
		}
		s.ends[put.group]++
	}
}
