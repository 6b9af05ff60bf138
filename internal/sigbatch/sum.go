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
	s.makeRoom(terms)
	for i, t := range terms {
		table := s.tables[i*multiples : (i+1)*multiples]
		t.k1.digits(func(place, digit int) {
			s.groups[place] = append(s.groups[place], t.k1.times(table, digit))
		})
		t.k2.digits(func(place, digit int) {
			s.groups[place] = append(s.groups[place], t.k2.times(table, digit).timesLambda())
		})
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

// makeRoom sets groups to nothing, with room for all digits of their places.
func (s *adder) makeRoom(terms []term) {
	var counts [places]int
	total := 0
	count := func(place, _ int) {
		counts[place]++
		total++
	}
	for _, t := range terms {
		t.k1.digits(count)
		t.k2.digits(count)
	}
	s.summands = slices.Grow(s.summands[:0], total)
	for place, from := 0, 0; place < places; place++ {
		s.groups[place] = s.summands[from : from : from+counts[place]]
		from += counts[place]
	}
}

// times looks the multiple up for a digit of this half.
func (h half) times(table []affine, digit int) affine {
	p := table[max(digit, -digit)/2]
	if digit < 0 != h.negative {
		return p.negated()
	}
	return p
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
