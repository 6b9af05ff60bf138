package analysis

import (
	"fmt"
	"math"

	"github.com/lightwork-market/lightwork/schemas"
)

// MatchThreshold is the least similarity of a short question to a text that is
// worth showing as its answer. It is lower than for embeddings that know
// meanings: texts that share no word have nothing in common here.
const MatchThreshold = 0.12

// Sizes of embeddings.
const (
	// EmbedDimensions is the vector length where none is asked for.
	embedDimensions = 512
	// MaxEmbedNumbers bounds texts times dimensions of one request, so that the
	// result fits into an answer.
	MaxEmbedNumbers = 1 << 18
)

// How much the kinds of features weigh against a word, and the unit in which
// features are added up.
const (
	ngramShare = 0.6 // all n-grams of one word together
	pairShare  = 0.4 // two words in this order
	unit       = 64
)

// Lengths of character n-grams, in characters, the word's borders counted.
const (
	minGram = 3
	maxGram = 5
)

// Embeddings answers an embedding request. The error, the only one there is, is
// a *[schemas.FieldError]: more numbers than [MaxEmbedNumbers].
//
// The hint for a model is ignored: model_id says which one it was.
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

// Embed returns the vector of text, EmbedDimensions long: of length 1, or all
// zeros if the text has no word.
func Embed(text string) []float32 {
	wide := embed(words(text), embedDimensions)
	v := make([]float32, len(wide))
	for i, x := range wide {
		v[i] = float32(x)
	}
	return v
}

// embed hashes every feature of the words to a place and a sign, adds up what
// the features weigh (inverse document frequency times the square root of the
// count) and scales the sum to length 1. The sums are whole numbers, so their
// order does not matter.
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

// ngrams are the n-grams of "^word$", but not the whole of it, which is a
// feature already.
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
		// The conversion keeps the product rounded: nothing may be fused.
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

// hash is FNV-1a with a final mix, since FNV leaves the high bits of short
// texts alike.
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
