package code

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tokensOf lists the tokens of a source between bars; literals are in <>,
// comments in ().
func tokensOf(s *source) string {
	var parts []string
	for _, t := range s.tokens {
		if t.kind == text {
			parts = append(parts, "<"+t.text+">")
		} else {
			parts = append(parts, t.text)
		}
	}
	for _, c := range s.comments {
		parts = append(parts, "("+c.text+")")
	}
	return strings.Join(parts, "|")
}

func TestTokens(t *testing.T) {
	for _, tt := range []struct{ language, source, want string }{
		{"go", "a:=`x\n//y`+'\\''", "a|:=|<`x\n//y`>|+|<'\\''>"},
		{"go", "/* a /* b */ c */", "c|*|/|(/* a /* b */)"},
		{"go", "x<-y; v...", "x|<-|y|;|v|..."},
		{"python", "x = rb'\\'a' # c", `x|=|<rb'\'a'>|(# c)`},
		{"python", "f'''a'b\n\"''' + \"\"", "<f'''a'b\n\"'''>|+|<\"\">"},
		{"python", "but = f", "but|=|f"},
		{"js", "a / b / c", "a|/|b|/|c"},
		{"js", "a = /[/\"]\\//g.test(b)", `a|=|</[/"]\//g>|.|test|(|b|)`},
		{"js", "return /x/", "return|</x/>"},
		{"js", "`a${b + `c${'}'}` + {d: `}`}.d}e` + 1", "<`a${b + `c${'}'}` + {d: `}`}.d}e`>|+|1"},
		{"js", "`'${a.replace(/'/g, `'\\\\''`)}${'`'}'` + 1", "<`'${a.replace(/'/g, `'\\\\''`)}${'`'}'`>|+|1"},
		{"js", "a ?? b?.c === 1e5 // 'x", "a|??|b|?.|c|===|1e5|(// 'x)"},
		{"js", "it's\nlet b", "it|<'s>|let|b"},
		{"rust", `r#"a"b"# + b'\'' + 'x' + '字'`, `<r#"a"b"#>|+|<b'\''>|+|<'x'>|+|<'字'>`},
		{"rust", "fn f<'a>(x: &'a str) 0..10", "fn|f|<|<'a>|>|(|x|:|&|<'a>|str|)|0|..|10"},
		{"rust", "/* a /* b */ c */ d", "d|(/* a /* b */ c */)"},
		{"rust", "br bytes r#type", "br|bytes|r|#|type"},
		{"ruby", "don't # x", "don|'|t|(# x)"},
		{"c", "a\\\nb", "a|b"},
	} {
		got := tokensOf(lex(tt.source, languageOf(tt.language, "", "").syntax))
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s\n%s", tt.language, tt.source, d)
		}
	}
}

func TestPositions(t *testing.T) {
	s := lex("a\n\t b /* x\n */ c\n", languageOf("c", "", "").syntax)
	var got []int
	for _, tok := range s.tokens {
		first := 0
		if tok.first {
			first = 1
		}
		got = append(got, tok.line, tok.col, first)
	}
	// c is not the first on its line by the rules of any language; a comment
	// that ends there comes before.
	if d := cmp.Diff([]int{0, 0, 1, 1, 9, 1, 2}, got[:7]); d != "" || s.lines != 3 || s.comments[0].last != 2 {
		t.Error(d, got, s.lines, s.comments)
	}
}

func TestPairs(t *testing.T) {
	for source, want := range map[string][]int{
		"(a[b])": {5, -1, 4, -1, 2, 0},
		"([)]":   {2, -1, 0, -1},
		")(":     {-1, -1},
		"{(}":    {2, -1, 0},
	} {
		s := lex(source, languageOf("go", "", "").syntax)
		if d := cmp.Diff(want, s.pair); d != "" {
			t.Errorf("%s: %s", source, d)
		}
	}
	for source, whole := range map[string]bool{"()": true, ")": false, "(": false, `"`: false, "/*": false} {
		if s := lex(source, languageOf("go", "", "").syntax); s.whole() != whole {
			t.Errorf("%s: %v", source, s.whole())
		}
	}
}
