package analysis

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxWordBytes is the length at which a word is cut: keys, hashes and encoded data
// are not words.
const maxWordBytes = 64

// word is one word of a text: in lower case as written, and without its English
// ending.
type word struct{ surface, stem string }

// words splits text (NFKC, lower case) at every character that is not a letter,
// mark or digit. An identifier yields its parts and, if it has several, the whole:
// "parseHTTP_url" is parse, http, url and parsehttpurl. Scripts without spaces
// between words yield every pair of neighbouring characters.
func words(text string) []word {
	text = norm.NFKC.String(strings.ToValidUTF8(text, " "))
	var all []word
	for text != "" {
		r, size := utf8.DecodeRuneInString(text)
		if !wordRune(r) {
			text = text[size:]
			continue
		}
		dense := unspaced(r)
		end := strings.IndexFunc(text, func(r rune) bool { return !wordRune(r) || unspaced(r) != dense })
		if end < 0 {
			end = len(text)
		}
		if dense {
			all = appendPairs(all, text[:end])
		} else {
			all = appendIdentifier(all, text[:end])
		}

		text = text[end:]
	}

	return all
}

func wordRune(r rune) bool {
	return r == '_' || unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r)
}

// unspaced reports whether the script of r puts no spaces between words.
func unspaced(r rune) bool {
	return r > 0xE00 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana,
		unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}

func appendPairs(all []word, run string) []word {
	previous := -1
	for i, r := range run {
		if next := i + utf8.RuneLen(r); previous >= 0 {
			all = append(all, word{run[previous:next], run[previous:next]})
		} else if next == len(run) {
			all = append(all, word{run, run})
		}
		previous = i
	}
	return all
}

func appendIdentifier(all []word, id string) []word {
	parts := 0
	for _, span := range strings.Split(id, "_") {
		for span != "" {
			n := partLen(span)
			all = append(all, newWord(span[:n]))
			span = span[n:]
			parts++
		}
	}

	if parts > 1 && len(id) <= maxWordBytes {
		all = append(all, newWord(strings.ReplaceAll(id, "_", "")))
	}
	return all
}

// partLen returns the length of the first part of an identifier without
// underscores. A part ends before an upper-case letter that follows a lower-case
// one, and before the last of several upper-case letters if a lower-case one
// follows.
func partLen(id string) int {
	var before, last rune
	lastAt := 0
	for i, r := range id {
		switch {
		case i == 0:
		case unicode.IsUpper(r) && !unicode.IsUpper(last) && unicode.IsLetter(last):
			return i
		case unicode.IsLower(r) && unicode.IsUpper(last) && unicode.IsUpper(before):
			return lastAt
		}
		before, last, lastAt = last, r, i
	}

	return len(id)
}

func newWord(s string) word {
	s = strings.ToLower(s)
	if len(s) > maxWordBytes {
		s = strings.ToValidUTF8(s[:maxWordBytes], "")
	}
	return word{s, stem(s)}
}

// stem strips the common endings of an English word: plural, -ing, -ed and a silent
// -e. The result need not be a word; it only has to be the same for all forms of
// one.
func stem(w string) string {
	if len(w) < 4 || strings.IndexFunc(w, func(r rune) bool { return r < 'a' || r > 'z' }) >= 0 {
		return w
	}

	switch {
	case strings.HasSuffix(w, "ies") && len(w) > 4:
		w = w[:len(w)-3] + "y"
	case strings.HasSuffix(w, "sses"):
		w = w[:len(w)-2]
	case strings.HasSuffix(w, "s") && !strings.HasSuffix(w, "ss") && !strings.HasSuffix(w, "us") && !strings.HasSuffix(w, "is"):
		w = w[:len(w)-1]
	}

	for _, ending := range [...]string{"ing", "ed"} {
		if root, ok := strings.CutSuffix(w, ending); ok && len(root) >= 3 && strings.ContainsAny(root, "aeiouy") {
			w = undouble(root)
			break
		}
	}

	if len(w) > 3 {
		w = strings.TrimSuffix(w, "e")
	}
	return w
}

// undouble removes a consonant that was doubled before the ending: "stopp" becomes
// "stop".
func undouble(root string) string {
	n := len(root)
	if root[n-1] == root[n-2] && !strings.ContainsRune("aeioulsz", rune(root[n-1])) {
		return root[:n-1]
	}
	return root
}

// stems returns the stems of the words of text, in order, with repetitions.
func stems(text string) []string {
	list := words(text)
	stems := make([]string, len(list))
	for i, w := range list {
		stems[i] = w.stem
	}
	return stems
}

// Subjects returns the stems of the words of text, without function words.
func Subjects(text string) []string {
	return slices.DeleteFunc(stems(text), isFunctionWord)
}
