package sigbatch

// pair is one addition of points: to = a + b. to may be one of them.
type pair struct {
	to, a, b *affine
	double   bool    // set by addPairs: a and b are the same
	infinite bool    // set by addPairs: the sum is the point at infinity, and to is not set
	inverse  element // of the slope's denominator
}

// adder adds many points at once. It keeps its memory from one sum to the next.
type adder struct {
	pairs  []pair
	before []element // products of the denominators before each

	parts    []part
	alike    []alike
	summands []summand
	points   []affine   // of summands, group by group
	groups   [][]affine // parts of points
	ends     []int      // in points, of each group as far as it is filled
}

// addPairs does all additions with one inversion among them. They are done in
// order: a sum may replace what only pairs before it and itself add.
func (s *adder) addPairs() {
	for i := range s.pairs {
		s.pairs[i].inverse = s.pairs[i].denominator()
	}
	s.invertAll()
	for i := range s.pairs {
		s.pairs[i].add()
	}
}

// denominator is that of the slope of the line through both points: of the
// tangent, if they are the same. It is 0 if the line is vertical.
func (p *pair) denominator() (d element) {
	d.sub(&p.b.x, &p.a.x)
	if d.isZero() {
		d.add(&p.b.y, &p.a.y) // 2y, or 0 if they are opposite
		p.double = true
	}
	return d
}

// invertAll inverts all denominators but those that are 0.
func (s *adder) invertAll() {
	product := element{1}
	s.before = s.before[:0]
	for i := range s.pairs {
		s.before = append(s.before, product)
		if d := &s.pairs[i].inverse; !d.isZero() {
			product.mul(&product, d)
		}
	}
	product.invert(&product)
	for i := len(s.pairs) - 1; i >= 0; i-- {
		d := s.pairs[i].inverse
		if d.isZero() {
			s.pairs[i].inverse = element{}
			continue
		}
		s.pairs[i].inverse.mul(&product, &s.before[i])
		product.mul(&product, &d)
	}
}

func (p *pair) add() {
	if p.inverse == (element{}) {
		p.infinite = true
		return
	}
	var slope, t element
	if p.double {
		slope.square(&p.a.x)
		t.add(&slope, &slope)
		slope.add(&slope, &t) // 3x^2
	} else {
		slope.sub(&p.b.y, &p.a.y)
	}
	slope.mul(&slope, &p.inverse)
	// x = slope^2 - a.x - b.x, y = slope*(a.x-x) - a.y
	var sum affine
	sum.x.square(&slope)
	sum.x.sub(&sum.x, &p.a.x)
	sum.x.sub(&sum.x, &p.b.x)
	t.sub(&p.a.x, &sum.x)
	sum.y.mul(&slope, &t)
	sum.y.sub(&sum.y, &p.a.y)
	*p.to = sum
}

// sumGroups brings every group down to its sum: one point, or none for the
// point at infinity. All groups go on together, so that the inversions are few.
func (s *adder) sumGroups() {
	for {
		s.pairs = s.pairs[:0]
		for _, g := range s.groups {
			for i := 0; i+1 < len(g); i += 2 {
				s.pairs = append(s.pairs, pair{to: &g[i/2], a: &g[i], b: &g[i+1]})
			}
		}
		if len(s.pairs) == 0 {
			return
		}
		s.addPairs()
		done := s.pairs
		for i, g := range s.groups {
			sums := g[:0]
			for _, p := range done[:len(g)/2] {
				if !p.infinite {
					sums = append(sums, *p.to)
				}
			}
			done = done[len(g)/2:]
			if len(g)%2 == 1 {
				sums = append(sums, g[len(g)-1])
			}
			s.groups[i] = sums
		}
	}
}
