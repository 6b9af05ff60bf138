package code

// kind is what a token is.
type kind uint8

const (
	name kind = iota // identifiers and keywords
	number
	text // string, character and regular expression literals, with their quotes
	comment
	mark // operators and brackets
)

// token is one token; its text is a part of the source.
type token struct {
	kind  kind
	text  string
	line  int  // from 0
	last  int  // line of its last character
	col   int  // bytes from the line's start; a tab goes on to the next multiple of 8
	first bool // nothing but space before it on its line
}

// is says whether the token is this keyword, operator or bracket. A literal is
// none of them: its text begins with a quote.
func (t token) is(s string) bool { return t.text == s && t.kind != comment }

// source is a chunk in tokens, its brackets paired.
type source struct {
	tokens   []token
	comments []token
	lines    int
	// pair has for every bracket the index of the other, -1 for all else.
	pair []int
	// Brackets and literals that begin before the chunk or end after it.
	opened, closed int
	unclosed       bool
}

// at returns a token, the zero token outside the source: it is no keyword and
// no operator.
func (s *source) at(i int) token {
	if i < 0 || i >= len(s.tokens) {
		return token{kind: comment}
	}
	return s.tokens[i]
}

// seq says whether the tokens from i on are these.
func (s *source) seq(i int, texts ...string) bool {
	for j, t := range texts {
		if !s.at(i + j).is(t) {
			return false
		}
	}
	return true
}

// other is the index of the bracket that pairs with the one at i; where it is
// missing, that of the source's last token.
func (s *source) other(i int) int {
	if i >= 0 && i < len(s.pair) && s.pair[i] >= 0 {
		return s.pair[i]
	}
	return len(s.tokens) - 1
}

// whole says that nothing open was cut off.
func (s *source) whole() bool { return s.opened == 0 && s.closed == 0 && !s.unclosed }

// pairs matches brackets. One that closes the wrong kind closes what is open
// inside its own.
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

// maxAhead bounds every look ahead, in tokens.
const maxAhead = 256

// body finds the "{" that follows i and belongs to it: bracketed groups are
// passed over; a ";", a "=>" or a closing bracket ends the search. -1: there is
// none.
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
