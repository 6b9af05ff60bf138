// Package analysis does text jobs without a model: it ranks texts with BM25 and
// embeds them with hashed features. A node without a model endpoint answers with
// it, and results name this program as their model.
//
// Every function is a pure function of its input, takes time and memory
// proportional to it, and returns the same bytes on every machine. For that,
// floating point operations are written so that no compiler can fuse two of them
// (Go may contract x*y+z), and results are rounded to six decimals.
package analysis

import "math"

// Model names in results. Any change of a result requires a new version.
const (
	RerankModel = "lightwork/bm25@1"
	EmbedModel  = "lightwork/hash-embed@1"
)

// round6 rounds to six decimals, so that the number prints with at most six.
func round6(x float64) float64 { return math.Round(x*1e6) / 1e6 }
