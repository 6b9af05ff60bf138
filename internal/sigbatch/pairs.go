package sigbatch

// adder adds many points at once. It keeps its memory from one sum to the next.
type adder struct {
	steps []step

	parts    []part
	alike    []alike
	summands []summand
	points   []affine   // of summands, group by group
	groups   [][]affine // parts of points
	ends     []int      // in points, of each group as far as it is filled
}

// step is a pair of points whose sum is asked for.
type step struct {
	denominator element // of the slope of the line through both, or of the tangent
	tangent     bool    // both are the same
	before      element // the product of the denominators before
}

// sumGroups brings every group down to its sum: one point, or none for the
// point at infinity. All groups go on together, so that the inversions are few.
func (s *adder) sumGroups() {
	for s.addPairs() {
	}
}

// addPairs adds up the points of every group in pairs, with one inversion among
// them all. It reports whether there were any.
func (s *adder) addPairs() bool {
	s.steps = s.steps[:0]

	product := element{1}
	for _, g := range s.groups {
		for i := len(g) & 1; i < len(g); i += 2 {
			s.steps = append(s.steps, step{before: product})
			p := &s.steps[len(s.steps)-1]
			if p.setDenominator(&g[i], &g[i+1]); !p.denominator.isZero() {
				product.mul(&product, &p.denominator)
			}
		}
	}

	if len(s.steps) == 0 {
		return false
	}
	product.invert(&product)

	// Backwards, product is the inverse of what it was. The sums take the places
	// of pairs that are done, from the last one down.
	steps := s.steps
	for k := len(s.groups) - 1; k >= 0; k-- {
		g := s.groups[k]
		first := len(g)
		for i := len(g) - 2; i >= 0; i -= 2 {
			last := &steps[len(steps)-1]
			steps = steps[:len(steps)-1]
			if last.denominator.isZero() {
				continue // the point at infinity
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

// setDenominator makes it 0 if the line through both points is vertical.
func (s *step) setDenominator(a, b *affine) {
	s.denominator.sub(&b.x, &a.x)
	if s.denominator.isZero() {
		s.denominator.add(&b.y, &a.y) // 2y, or 0 if they are opposite
		s.tangent = true
	}
}

// setSum sets p to a + b, which is not the point at infinity. inverse is that of
// the slope's denominator. p may be one of them.
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
