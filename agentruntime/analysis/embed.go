package analysis

import (
	"fmt"
	"math"

	"github.com/lightwork-market/lightwork/schemas"
)

// MatchThreshold is the least similarity at which a text is worth showing as an
// answer to a short question. It is lower than for embeddings that capture meaning:
// here, texts without a common word have a similarity near zero.
const MatchThreshold = 0.12

// Sizes of embeddings.
const (
	// embedDimensions is the vector length if the request has none.
	embedDimensions = 512
	// MaxEmbedNumbers bounds texts times dimensions of one request, so that the
	// result fits into an answer.
	MaxEmbedNumbers = 1 << 18
)

// Weights of features relative to a whole word, and the unit of their integer sums.
const (
	ngramShare = 0.6 // all n-grams of a word together
	pairShare  = 0.4 // two adjacent words
	unit       = 64
)

// Lengths of n-grams in characters, including the borders of the word.
const (
	minGram = 3
	maxGram = 5
)

// Embeddings answers an embedding request. Its only error is a
// *[schemas.FieldError], if the request exceeds [MaxEmbedNumbers].
//
// The requested model is ignored; model_id in the result names this one.
func Embeddings(req *schemas.EmbeddingRequest) (*schemas.EmbeddingResult, error) {
	dims := req.Dimensions
	if dims == 0 {
		dims = embedDimensions
	}
	if most := int64(MaxEmbedNumbers / max(1, len(req.Texts))); dims > most {
		return nil, &schemas.FieldError{
			Field:  "dimensions",
			Reason: fmt.Sprintf("is %d, at most %d with %d texts", dims, most, len(req.Texts)),
		}
	}

	r := &schemas.EmbeddingResult{ModelID: EmbedModel, Dimensions: dims}
	var tokens schemas.Tokens
	for _, text := range req.Texts {
		list := words(text)
		tokens.Input += int64(len(list))
		r.Embeddings = append(r.Embeddings, embed(list, int(dims)))
	}

	r.Provenance = schemas.Provenance{ModelID: EmbedModel, Tokens: &tokens}
	return r, nil
}

// Embed returns the vector of text with embedDimensions numbers. Its length is 1,
// or 0 if the text has no word.
func Embed(text string) []float32 {
	wide := embed(words(text), embedDimensions)
	v := make([]float32, len(wide))
	for i, x := range wide {
		v[i] = float32(x)
	}
	return v
}

// embed hashes every feature of the words to a position and a sign, adds the weight
// of the feature there (inverse document frequency times the square root of the
// count), and scales the vector to length 1. The sums are integers, so their order
// does not matter.
func embed(list []word, dims int) []float64 {
	sums := make([]int64, dims)
	add := func(kind byte, text string, weight float64) {
		h := hash(kind, text)
		w := int64(math.Round(unit * weight))
		if h>>63 == 1 {
			w = -w
		}
		sums[h%uint64(dims)] += w
	}

	stems, surfaces, pairs := map[string]int{}, map[word]int{}, map[[2]string]int{}
	for i, w := range list {
		stems[w.stem]++
		surfaces[w]++
		if i > 0 && !isFunctionWord(w.stem) && !isFunctionWord(list[i-1].stem) {
			pairs[[2]string{list[i-1].stem, w.stem}]++
		}
	}

	for s, n := range stems {
		add('w', s, weight(idf(s), n))
	}

	for w, n := range surfaces {
		grams := ngrams(w.surface)
		share := ngramShare * weight(idf(w.stem), n) / math.Sqrt(float64(max(1, len(grams))))
		for _, g := range grams {
			add('g', g, share)
		}
	}

	for p, n := range pairs {
		add('p', p[0]+" "+p[1], pairShare*weight(min(idf(p[0]), idf(p[1])), n))
	}
	return normalise(sums)
}

func weight(idf int64, count int) float64 { return float64(idf) * math.Sqrt(float64(count)) }

// ngrams returns the n-grams of "^word$", except the whole, which is already a
// feature.
func ngrams(w string) []string {
	w = "^" + w + "$"
	starts := make([]int, 0, len(w)+1)
	for i := range w {
		starts = append(starts, i)
	}

	starts = append(starts, len(w))
	var all []string
	for n := minGram; n <= min(maxGram, len(starts)-2); n++ {
		for i := 0; i+n < len(starts); i++ {
			all = append(all, w[starts[i]:starts[i+n]])
		}
	}

	return all
}

func normalise(sums []int64) []float64 {
	var squares float64
	for _, s := range sums {
		// The conversion rounds the product, so it cannot be fused with the sum.
		squares += float64(float64(s) * float64(s))
	}

	v := make([]float64, len(sums))
	if length := math.Sqrt(squares); length > 0 {
		for i, s := range sums {
			v[i] = round6(float64(s) / length)
		}
	}

	return v
}

// hash is FNV-1a with a final mix, because FNV leaves the high bits of short texts
// nearly equal.
func hash(kind byte, text string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := (uint64(offset) ^ uint64(kind)) * prime
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
