package analysis

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		" .,;—!":                      "",
		"Two words":                   "two words",
		"parseHTTP_url":               "parse http url parsehttpurl",
		"HTTPServer2 sha256":          "http server2 httpserver2 sha256",
		"MAX_FRAME":                   "max frame maxframe",
		"__init__":                    "init",
		"node's":                      "node s",
		"Cafe\u0301 CAFÉ ﬁle":         "café café file",
		"Straße Ελλάδα":               "straße ελλάδα",
		"日本語 text カ":                  "日本 本語 text カ",
		"漢字abc":                       "漢字 abc",
		"\xff\xfea\x80b":              "a b",
		"a\x00b":                      "a b",
		strings.Repeat("x", 100):      strings.Repeat("x", maxWordBytes),
		strings.Repeat("é", 40):       strings.Repeat("é", maxWordBytes/2),
		"x" + strings.Repeat("é", 40): "x" + strings.Repeat("é", (maxWordBytes-1)/2),
	} {
		var got []string
		for _, w := range words(text) {
			got = append(got, w.surface)
		}
		if d := cmp.Diff(want, strings.Join(got, " ")); d != "" {
			t.Errorf("%q: %s", text, d)
		}
	}
}

func TestStemIsOneForTheFormsOfAWord(t *testing.T) {
	for _, forms := range []string{
		"parse parses parsed parsing", "stop stops stopped stopping", "query queries", "file files filed filing",
		"address addresses addressed", "call calls called calling", "cache caches cached caching",
	} {
		all := strings.Fields(forms)
		for _, w := range all[1:] {
			if stem(w) != stem(all[0]) {
				t.Errorf("%s is %s, %s is %s", w, stem(w), all[0], stem(all[0]))
			}
		}
	}
	for _, w := range strings.Fields("status this red sing bring größe naïve sha256s") {
		if got := stem(w); got != w && got+"e" != w {
			t.Errorf("%s is %s", w, got)
		}
	}
}

// Common words weigh less than rare ones, function words least.
func TestIDF(t *testing.T) {
	if a, b, c := idf("the"), idf(stem("value")), idf("zeppelin"); a >= b || b >= c || c != rareIDF {
		t.Errorf("the %d, value %d, zeppelin %d", a, b, c)
	}
	if n := len(english().idf); n < 1000 {
		t.Errorf("%d words", n)
	}
}

func FuzzWords(f *testing.F) {
	f.Add("parseHTTP_url 日本語 é\xff ﷺ")
	f.Fuzz(func(t *testing.T, text string) {
		for _, w := range words(text) {
			if w.surface == "" || w.stem == "" || len(w.surface) > maxWordBytes || !utf8.ValidString(w.surface) {
				t.Fatalf("%q gives %q", text, w)
			}
		}
		for _, x := range Embed(text) {
			if !(x >= -1 && x <= 1) {
				t.Fatalf("%q gives %v", text, x)
			}
		}
	})
}
