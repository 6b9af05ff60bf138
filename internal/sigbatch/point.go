package sigbatch

// affine is a point of the curve y^2 = x^3 + 7, but never the point at infinity.
type affine struct{ x, y element }

var (
	seven = element{7}
	// generator is G.
	generator = affine{
		x: element{0x59f2815b16f81798, 0x029bfcdb2dce28d9, 0x55a06295ce870b07, 0x79be667ef9dcbbac},
		y: element{0x9c47d08ffb10d4b8, 0xfd17b448a6855419, 0x5da4fbfc0e1108a8, 0x483ada7726a3c465},
	}
	// beta is a cube root of 1. (beta*x, y) is lambda times (x, y), so that one
	// field multiplication multiplies a point by that large number.
	beta = element{0xc1396c28719501ee, 0x9cf0497512f58995, 0x6e64479eac3434e9, 0x7ae96a2b657c0710}
)

// lift finds the point with this x whose y is odd or even, if there is one.
func lift(x *element, odd bool) (affine, bool) {
	p := affine{x: *x}
	var right element
	right.square(x)
	right.mul(&right, x)
	right.add(&right, &seven)
	if !p.y.sqrt(&right) {
		return affine{}, false
	}
	if p.y.isOdd() != odd {
		p.y.neg(&p.y)
	}
	return p, true
}

func (p affine) negated() affine {
	p.y.neg(&p.y)
	return p
}

func (p affine) timesLambda() affine {
	p.x.mul(&p.x, &beta)
	return p
}

// jacobian is the point (x/z^2, y/z^3), or the point at infinity if z is 0.
type jacobian struct{ x, y, z element }

func (p *jacobian) isInfinity() bool { return p.z.isZero() }

// double adds p to itself. No point of the curve has order two.
func (p *jacobian) double() {
	// This is dbl-2009-l of the Explicit-Formulas Database.
	var a, b, c, d, e, f, t element
	a.square(&p.x)
	b.square(&p.y)
	c.square(&b)
	d.add(&p.x, &b)
	d.square(&d)
	d.sub(&d, &a)
	d.sub(&d, &c)
	d.add(&d, &d)
	e.add(&a, &a)
	e.add(&e, &a)
	f.square(&e)
	p.z.mul(&p.y, &p.z)
	p.z.add(&p.z, &p.z)
	p.x.sub(&f, &d)
	p.x.sub(&p.x, &d)
	t.sub(&d, &p.x)
	p.y.mul(&e, &t)
	c.add(&c, &c)
	c.add(&c, &c)
	c.add(&c, &c)
	p.y.sub(&p.y, &c)
}

// add adds q. Unlike many formulas it is right for every pair of points.
func (p *jacobian) add(q *affine) {
	if p.isInfinity() {
		*p = jacobian{q.x, q.y, element{1}}
		return
	}

	// h and r are the differences of the points in x and y.
	var zz, h, r, t element
	zz.square(&p.z)
	h.mul(&q.x, &zz)
	h.sub(&h, &p.x)
	r.mul(&q.y, &zz)
	r.mul(&r, &p.z)
	r.sub(&r, &p.y)
	if h.isZero() {
		if r.isZero() {
			p.double()
		} else {
			*p = jacobian{}
		}
		return
	}

	var hh, hhh, v element
	hh.square(&h)
	hhh.mul(&hh, &h)
	v.mul(&p.x, &hh)
	p.z.mul(&p.z, &h)

	// x = r^2 - h^3 - 2v, y = r(v-x) - y*h^3
	p.x.square(&r)
	p.x.sub(&p.x, &hhh)
	p.x.sub(&p.x, &v)
	p.x.sub(&p.x, &v)
	v.sub(&v, &p.x)
	t.mul(&p.y, &hhh)
	p.y.mul(&r, &v)
	p.y.sub(&p.y, &t)
}
