package sigbatch

import "slices"

// term is a point times k1 + k2*lambda.
type term struct {
	point  affine
	k1, k2 half
}

// multiples is how many odd multiples of a point digits can ask for.
const multiples = 1 << (window - 2)

// sumIsZero reports whether the terms add up to the point at infinity. It is
// Straus's way: for each place of the digits, what stands there is added up,
// and the sums are put together from the highest place down.
func (s *adder) sumIsZero(terms []term) bool {
	s.makeTables(terms)
	s.cut(terms)
	s.makeRoom()
	for _, c := range s.cuts {
		p := s.tables[c.multiple]
		if c.lambda {
			p = p.timesLambda()
		}
		if c.negative {
			p = p.negated()
		}
		s.groups[c.place] = append(s.groups[c.place], p)
	}
	s.sumGroups()
	var sum jacobian
	for place := places - 1; place >= 0; place-- {
		sum.double()
		for i := range s.groups[place] { // one, or none
			sum.add(&s.groups[place][i])
		}
	}
	return sum.isInfinity()
}

// cut is a digit of a term: a multiple of its point, in tables, for a place.
type cut struct {
	multiple, place  int32
	negative, lambda bool
}

// cut sets cuts to all digits of the terms.
func (s *adder) cut(terms []term) {
	s.cuts = s.cuts[:0]
	for i, t := range terms {
		put := func(h half, lambda bool) {
			h.digits(func(place, digit int) {
				multiple := i*multiples + max(digit, -digit)/2
				s.cuts = append(s.cuts, cut{int32(multiple), int32(place), digit < 0 != h.negative, lambda})
			})
		}
		put(t.k1, false)
		put(t.k2, true)
	}
}

// makeRoom sets groups to nothing, with room for all cuts of their places.
func (s *adder) makeRoom() {
	var counts [places]int
	for _, c := range s.cuts {
		counts[c.place]++
	}
	s.summands = slices.Grow(s.summands[:0], len(s.cuts))
	for place, from := 0, 0; place < places; place++ {
		s.groups[place] = s.summands[from : from : from+counts[place]]
		from += counts[place]
	}
}

// makeTables sets tables to P, 3P, 5P, to 15P of every term's point, in turn.
// None of them is at infinity, the group's order being prime.
func (s *adder) makeTables(terms []term) {
	s.tables = slices.Grow(s.tables[:0], len(terms)*multiples)[:len(terms)*multiples]
	s.twice = slices.Grow(s.twice[:0], len(terms))[:len(terms)]
	s.pairs = s.pairs[:0]
	for i := range terms {
		p := &s.tables[i*multiples]
		*p = terms[i].point
		s.pairs = append(s.pairs, pair{to: &s.twice[i], a: p, b: p})
	}
	s.addPairs()
	for m := 1; m < multiples; m++ {
		for i := range s.pairs {
			at := s.tables[i*multiples+m-1:]
			s.pairs[i] = pair{to: &at[1], a: &at[0], b: &s.twice[i]}
		}
		s.addPairs()
	}
}
