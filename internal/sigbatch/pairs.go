package sigbatch

// adder adds many points at once. It keeps its memory from one sum to the next.
type adder struct {
	pairs []pair

	parts   []part
	buckets []bucket
	terms   []term
	points  []affine   // of the terms, group by group
	groups  [][]affine // slices of points
	ends    []int      // of what each group holds so far, in points
}

// pair is the addition of two points.
type pair struct {
	denominator element // of the slope of the line through both, or of the tangent
	tangent     bool    // the two points are equal
	before      element // the product of all denominators before this one
}

// sumGroups reduces every group to its sum: one point, or none for the point at
// infinity. The groups share each round of additions, so that inversions are few.
func (s *adder) sumGroups() {
	for s.addPairs() {
	}
}

// addPairs adds the points of every group in pairs, with one shared inversion
// (Montgomery's trick). It reports whether there were any pairs.
func (s *adder) addPairs() bool {
	s.pairs = s.pairs[:0]

	product := element{1}
	for _, g := range s.groups {
		for i := len(g) & 1; i < len(g); i += 2 {
			s.pairs = append(s.pairs, pair{before: product})
			p := &s.pairs[len(s.pairs)-1]
			if p.setDenominator(&g[i], &g[i+1]); !p.denominator.isZero() {
				product.mul(&product, &p.denominator)
			}
		}
	}

	if len(s.pairs) == 0 {
		return false
	}
	product.invert(&product)

	// Going backwards, product is the inverse of the denominators up to this pair.
	// A sum overwrites a point of a pair that is done, from the group's end down.
	pairs := s.pairs
	for k := len(s.groups) - 1; k >= 0; k-- {
		g := s.groups[k]
		first := len(g)
		for i := len(g) - 2; i >= 0; i -= 2 {
			last := &pairs[len(pairs)-1]
			pairs = pairs[:len(pairs)-1]
			if last.denominator.isZero() {
				continue // the sum is the point at infinity
			}
			inverse := &last.before
			inverse.mul(inverse, &product)
			product.mul(&product, &last.denominator)
			first--
			g[first].setSum(&g[i], &g[i+1], inverse, last.tangent)
		}

		if len(g)&1 == 1 {
			first--
			g[first] = g[0]
		}

		s.groups[k] = g[first:]
	}

	return true
}

// setDenominator sets 0 for a vertical line, whose points are opposite.
func (s *pair) setDenominator(a, b *affine) {
	s.denominator.sub(&b.x, &a.x)
	if s.denominator.isZero() {
		s.denominator.add(&b.y, &a.y) // 2y, or 0 if they are opposite
		s.tangent = true
	}
}

// setSum sets p to a + b, which must not be the point at infinity. inverse is the
// inverse of the slope's denominator. p may be a or b.
func (p *affine) setSum(a, b *affine, inverse *element, tangent bool) {
	var slope, x, t element
	if tangent {
		slope.square(&a.x)
		t.add(&slope, &slope)
		slope.add(&slope, &t) // 3x^2
	} else {
		slope.sub(&b.y, &a.y)
	}

	slope.mul(&slope, inverse)

	// x = slope^2 - a.x - b.x, y = slope*(a.x-x) - a.y
	x.square(&slope)
	x.sub(&x, &a.x)
	x.sub(&x, &b.x)
	t.sub(&a.x, &x)
	t.mul(&t, &slope)
	p.y.sub(&t, &a.y)
	p.x = x
}
