package domain_test

import (
	"errors"
	"regexp"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/domain"
)

// Every domain passes for itself and for no other, and has the one form.
func TestEachDomainIsItsOwn(t *testing.T) {
	form := regexp.MustCompile(`^lightwork/[a-z_]+/v1$`)
	for i, d := range domain.All() {
		if !form.MatchString(string(d)) || slices.Index(domain.All(), d) != i {
			t.Errorf("%s has another form, or is there twice", d)
		}
		for _, other := range domain.All() {
			tags := [][]string{{"e", "x"}, other.Tag()}
			for name, err := range map[string]error{"demand": domain.Demand(d, tags), "allow": domain.Allow(d, tags)} {
				if (err == nil) != (d == other) || err != nil && !errors.Is(err, domain.Error) {
					t.Errorf("%s of %s read as %s: %v", name, other, d, err)
				}
			}
		}
	}
}

// A tag that could be read in two ways names no domain.
func TestTagsThatNameNoDomain(t *testing.T) {
	want := string(domain.Receipt)
	for name, c := range map[string]struct {
		tags           [][]string
		demand, allows bool
	}{
		"one":          {[][]string{{"domain", want}}, true, true},
		"among others": {[][]string{{}, {"e"}, {"domain", want}, {"Domain", "x"}}, true, true},
		"none":         {[][]string{{"e", want}, {"i", "domain", want}}, false, true},
		"twice":        {[][]string{{"domain", want}, {"domain", want}}, false, false},
		"two":          {[][]string{{"domain", want}, {"domain", string(domain.Result)}}, false, false},
		"without":      {[][]string{{"domain"}}, false, false},
		"empty":        {[][]string{{"domain", ""}}, false, false},
		"three items":  {[][]string{{"domain", want, want}}, false, false},
		"another case": {[][]string{{"domain", "lightwork/Receipt/v1"}}, false, false},
		"of another":   {[][]string{{"domain", "example.com"}}, false, false},
	} {
		if err := domain.Demand(domain.Receipt, c.tags); (err == nil) != c.demand {
			t.Errorf("%s: demand: %v", name, err)
		}
		if err := domain.Allow(domain.Receipt, c.tags); (err == nil) != c.allows {
			t.Errorf("%s: allow: %v", name, err)
		}
	}
}
