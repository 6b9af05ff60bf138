package code

// kind is the kind of a token.
type kind uint8

const (
	name kind = iota // identifiers and keywords
	number
	text // string, character and regular expression literals, with their quotes
	comment
	mark // operators and brackets
)

// token is one token; its text is a slice of the source.
type token struct {
	kind  kind
	text  string
	line  int  // from 0
	last  int  // line of its last character
	col   int  // bytes from the start of the line; a tab advances to the next multiple of 8
	first bool // only spaces precede it on its line
}

// is reports whether the token is this keyword, operator or bracket. A literal
// never is, because its text includes the quote.
func (t token) is(s string) bool { return t.text == s && t.kind != comment }

// source is a chunk split into tokens, with brackets paired.
type source struct {
	tokens   []token
	comments []token
	lines    int
	// pair has the index of the partner of each bracket, -1 for other tokens.
	pair []int
	// Numbers of brackets and literals that begin before the chunk or end after it.
	opened, closed int
	unclosed       bool
}

// at returns a token. Outside the source it returns the zero token, which is
// neither a keyword nor an operator.
func (s *source) at(i int) token {
	if i < 0 || i >= len(s.tokens) {
		return token{kind: comment}
	}
	return s.tokens[i]
}

// seq reports whether the tokens from i on have these texts.
func (s *source) seq(i int, texts ...string) bool {
	for j, t := range texts {
		if !s.at(i + j).is(t) {
			return false
		}
	}
	return true
}

// other returns the index of the partner of the bracket at i, or of the last token
// if the partner is missing.
func (s *source) other(i int) int {
	if i >= 0 && i < len(s.pair) && s.pair[i] >= 0 {
		return s.pair[i]
	}
	return len(s.tokens) - 1
}

// whole reports whether the chunk cuts no bracket or literal.
func (s *source) whole() bool { return s.opened == 0 && s.closed == 0 && !s.unclosed }

// pairs matches brackets. A closing bracket of another kind also closes what is
// open inside its own pair.
func (s *source) pairs() {
	s.pair = make([]int, len(s.tokens))

	var stack []int
	open := map[string]int{}
	for i, t := range s.tokens {
		s.pair[i] = -1
		if t.kind != mark {
			continue
		}

		switch t.text {
		case "(", "[", "{":
			stack = append(stack, i)
			open[t.text]++
		case ")", "]", "}":
			want := opening(t.text)
			if open[want] == 0 {
				s.opened++
				continue
			}

			for {
				top := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				open[s.tokens[top].text]--
				if s.tokens[top].text == want {
					s.pair[top], s.pair[i] = i, top
					break
				}
			}
		}
	}

	s.closed = len(stack)
}

func opening(closing string) string {
	switch closing {
	case ")":
		return "("
	case "]":
		return "["
	}
	return "{"
}

// maxAhead bounds every lookahead, in tokens.
const maxAhead = 256

// body returns the index of the "{" that follows i and belongs to it, -1 if there
// is none. It skips bracketed groups and stops at ";", "=>" or a closing bracket.
func (s *source) body(i int) int {
	for n := 0; n < maxAhead && i < len(s.tokens); n++ {
		switch t := s.tokens[i]; {
		case t.is("{"):
			return i
		case t.is("(") || t.is("["):
			i = s.other(i) + 1
			continue
		case t.is(";") || t.is("=>") || t.is("}") || t.is(")") || t.is("]"):
			return -1
		}
		i++
	}

	return -1
}
