package provider

import (
	"slices"

	"github.com/lightwork-market/lightwork/market/kinds"
)

// Kinds are the event kinds that are ours to configure.
type Kinds struct {
	Request int // 5050; the result is +1000
	// Also are further kinds of request that are taken, from 5000 to 5999, where
	// they name a schema.
	Also       []int
	Acceptance int // 7001
	Receipt    int // 7002
}

func (k Kinds) withDefaults() Kinds {
	def(&k.Request, kinds.Request)
	k.Also = slices.DeleteFunc(slices.Clone(k.Also), func(kind int) bool { return kind == k.Request })
	def(&k.Acceptance, kinds.Acceptance)
	def(&k.Receipt, kinds.Receipt)
	return k
}

// def sets *v to d if it is zero.
func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
