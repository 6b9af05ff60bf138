package analysis

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/schemas"
)

// similarity is the cosine of two vectors of Embed.
func similarity(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// Another processor, another order of map entries, another Go: the same bytes.
// A change of this digest is a new version of the model.
func TestEmbeddingIsTheSameEverywhere(t *testing.T) {
	req := &schemas.EmbeddingRequest{
		Texts:      []string{"Creates a Lightning invoice.", "parseHTTP_url 日本語 café, café!", "", strings.Repeat("many words, many times ", 500)},
		Dimensions: 64,
	}
	const want = "6fca5f16d6098cbb8edf41e9b597bfb7e050b3646474e3603aecd336b79c0679"
	for range 5 {
		r, err := Embeddings(req)
		if err != nil {
			t.Fatal(err)
		}
		doc, err := json.Marshal(r.Embeddings)
		if err != nil {
			t.Fatal(err)
		}
		if got := hashing.Bytes(doc).Hex(); got != want {
			t.Fatalf("digest %s", got)
		}
	}
}

func TestEmbeddingAnswersItsRequest(t *testing.T) {
	requirements.Covers(t, "AP-10.2.1")
	schema, _ := schemas.Lookup(string(schemas.Embedding))
	for _, doc := range []string{
		`{"texts":["one","two words",""]}`,
		`{"texts":["one"],"dimensions":1}`,
		`{"texts":["one"],"dimensions":16384,"model_hint":"another"}`,
	} {
		req, err := schema.ParseRequest([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		r, err := Embeddings(req.Value.(*schemas.EmbeddingRequest))
		if err != nil {
			t.Fatal(err)
		}
		if r.ModelID != EmbedModel || r.Provenance.ModelID != EmbedModel || r.Provenance.Tokens.Input == 0 {
			t.Errorf("%s: %+v", doc, r.Provenance)
		}
		r.Provenance.ProviderPubkey = strings.Repeat("ab", 32)
		out, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		result, err := schema.ParseResult(out)
		if err != nil {
			t.Fatalf("%s: %v", doc, err)
		}
		if err := req.CheckResult(result); err != nil {
			t.Errorf("%s: %v", doc, err)
		}
	}
}

func TestEmbeddingHasLengthOne(t *testing.T) {
	for _, text := range []string{"one", "a longer text with several words", "日本語"} {
		var sum float64
		for _, x := range Embed(text) {
			sum += float64(x) * float64(x)
		}
		if math.Abs(sum-1) > 1e-3 {
			t.Errorf("%q: %v", text, sum)
		}
		if s := similarity(Embed(text), Embed(text)); math.Abs(s-1) > 1e-3 {
			t.Errorf("%q is like itself by %v", text, s)
		}
	}
	if s := similarity(Embed("…"), Embed("word")); s != 0 {
		t.Errorf("a text without words is like a word by %v", s)
	}
}

func TestSimilarityOrdersTexts(t *testing.T) {
	query := Embed("deletes files")
	for _, pair := range [][2]string{
		{"Deleting a file.", "Reading a file."},
		{"file deletion", "image conversion"},
		{"deletes files", "files deletes"},
	} {
		near, far := similarity(query, Embed(pair[0])), similarity(query, Embed(pair[1]))
		if near <= far {
			t.Errorf("%q %v, %q %v", pair[0], near, pair[1], far)
		}
	}
}

func TestEmbeddingIsBounded(t *testing.T) {
	texts := make([]string, 256)
	for i := range texts {
		texts[i] = "word"
	}
	_, err := Embeddings(&schemas.EmbeddingRequest{Texts: texts, Dimensions: 1025})
	var fe *schemas.FieldError
	if !errors.As(err, &fe) || fe.Field != "dimensions" {
		t.Errorf("got %v", err)
	}
	r, err := Embeddings(&schemas.EmbeddingRequest{Texts: texts, Dimensions: 1024})
	if err != nil {
		t.Fatal(err)
	}
	// The longest form of a number, and a comma.
	if size := len(r.Embeddings) * 1024 * len("-0.123456,"); size > schemas.MaxResultBytes-1<<20 {
		t.Errorf("%d bytes do not fit", size)
	}
	for _, hostile := range []string{
		strings.Repeat("\xff", 1<<20), strings.Repeat("a", 1<<20), strings.Repeat("a ", 1<<19),
		strings.Repeat("\u0301", 1<<19), strings.Repeat("ﷺ", 1<<18), strings.Repeat("aB", 1<<19), strings.Repeat("字", 1<<18),
	} {
		if v := Embed(hostile); len(v) != embedDimensions {
			t.Errorf("%d numbers", len(v))
		}
	}
}

func BenchmarkEmbed(b *testing.B) {
	text := strings.Repeat("Creates a Lightning invoice for an amount in millisatoshis. ", 20)
	for b.Loop() {
		Embed(text)
	}
}
