// Package analysis does text jobs without a model: it ranks with BM25 and
// embeds with hashed features. It is what a node with no model endpoint
// answers with, and its results say so: the program names itself as the model.
//
// Everything here is a pure function of its input, takes time and memory in
// proportion to it, and gives the same bytes on every machine: floating point
// is used one rounded operation at a time, so that no compiler can fuse two
// (Go may contract x*y+z), and what leaves the package is rounded to six
// decimals.
package analysis

import "math"

// The names that results carry as their model. A change of any result is a new
// version.
const (
	RerankModel = "lightwork/bm25@1"
	EmbedModel  = "lightwork/hash-embed@1"
)

// round6 rounds to six decimals, so that the shortest text of the number has
// no more of them.
func round6(x float64) float64 { return math.Round(x*1e6) / 1e6 }
