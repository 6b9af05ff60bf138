package curator

import (
	"fmt"
	"iter"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a summary.
const (
	// maxSummaryBytes bounds the length of a summary.
	maxSummaryBytes = 4 << 10
	// maxRun is the number of consecutive words of the original that make a summary
	// an excerpt. If the original has fewer words, all of them do.
	maxRun = 8
	// maxSummaryWord bounds one word in bytes: encoded data without spaces must not
	// pass as a single word. The longest common hash has 128 digits.
	maxSummaryWord = 128
)

// CheckSummary reports whether summary may stand for original (AP-6.4.1). The error
// is ErrSummary if the summary is empty, too long or not text, and ErrExcerpt if it
// repeats eight consecutive words of the original. Case and punctuation do not
// count.
func CheckSummary(summary string, original []byte) error {
	return excerptsOf(original).check(summary)
}

// excerpts finds words of an original in a summary.
type excerpts struct {
	words []uint64
}

func excerptsOf(original []byte) excerpts {
	list, _ := words(string(original))
	return excerpts{list}
}

type run [maxRun]uint64

func (e excerpts) check(summary string) error {
	switch {
	case strings.TrimSpace(summary) == "":
		return fmt.Errorf("%w: it is empty", ErrSummary)
	case len(summary) > maxSummaryBytes:
		return fmt.Errorf("%w: %d bytes, at most %d", ErrSummary, len(summary), maxSummaryBytes)
	case !utf8.ValidString(summary) || strings.ContainsRune(summary, 0):
		return fmt.Errorf("%w: it is no text", ErrSummary)
	}

	summaryWords, longest := words(summary)
	if longest > maxSummaryWord {
		return fmt.Errorf("%w: a word of %d bytes", ErrExcerpt, longest)
	}
	n := min(maxRun, len(e.words))
	if n == 0 {
		return nil
	}
	seen := make(map[run]bool, len(summaryWords))
	for i := range len(summaryWords) - n + 1 {
		seen[runAt(summaryWords[i:], n)] = true
	}
	if len(seen) == 0 {
		return nil
	}

	for i := range len(e.words) - n + 1 {
		if seen[runAt(e.words[i:], n)] {
			return fmt.Errorf("%w: %d words in a row", ErrExcerpt, n)
		}
	}

	return nil
}

func runAt(words []uint64, n int) (r run) {
	copy(r[:n], words)
	return r
}

// words returns the hashes of the words of s and the length of the longest word. If
// two words have the same hash, a good summary may be refused, but no bad one
// passes.
func words(s string) (list []uint64, longest int) {
	const offset, prime = 14695981039346656037, 1099511628211 // FNV-1a, a rune at a time
	for word := range split(s) {
		hash := uint64(offset)
		for _, r := range word {
			hash = (hash ^ uint64(unicode.ToLower(r))) * prime
		}
		list, longest = append(list, hash), max(longest, len(word))
	}
	return list, longest
}

// split yields the words of s: runs of letters, marks and digits. In scripts
// without spaces between words, each character is a word.
func split(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		start := -1 // of the current word, -1 between words
		for i, r := range s {
			inWord := unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r)
			alone := r > unicode.MaxLatin1 && unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer)
			if start >= 0 && (alone || !inWord) {
				if !yield(s[start:i]) {
					return
				}
				start = -1
			}

			switch {
			case alone && !yield(string(r)):
				return
			case !alone && inWord && start < 0:
				start = i
			}
		}

		if start >= 0 {
			yield(s[start:])
		}
	}
}
