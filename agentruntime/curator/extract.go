package curator

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// Bounds of an extraction.
const (
	maxExtracted = 1 << 20 // bytes of the original that are read
	maxFacts     = 8       // facts of one kind in a summary
	maxFactBytes = 80
	maxPending   = 10_000 // facts of one kind that are counted
)

// The kinds of facts, in the order of a summary.
const (
	factOutcome = iota
	factID
	factNumber
	factHash
	factTopic
	factKinds
)

var factNames = [factKinds]string{"outcome", "ids", "numbers", "hashes", "about"}

func extraction(_ context.Context, s Segment, original []byte) (string, error) {
	return Extract(s.ContentType, original), nil
}

// Extract summarizes an original without a model. The summary lists outcomes,
// identifiers, numbers, hashes, the most frequent words and the size. It passes
// [CheckSummary] for every original: facts that would quote it are dropped.
func Extract(contentType string, original []byte) string {
	head := original[:min(len(original), maxExtracted)]
	var found [factKinds]facts
	if !extractJSON(head, &found) {
		extractText(string(head), &found)
	}
	found[factTopic] = topics(string(head))
	check := excerptsOf(original)
	size := fmt.Sprintf("%d bytes, %d words of %s", len(original), len(check.words), contentType)
	if all := render(found, size); check.check(all) == nil {
		return all
	}
	if len(original) > maxExtracted { // checking each fact would take too long
		found = [factKinds]facts{}
	}

	// The summary repeats a run of words of the original, so each fact is checked
	// before it is added.
	var passing [factKinds]facts
	for kind := range found {
		for _, f := range found[kind].top(maxFacts) {
			with := passing
			with[kind].list = append(with[kind].list[:len(with[kind].list):len(with[kind].list)], f)
			if check.check(render(with, size)) == nil {
				passing = with
			}
		}
	}

	if text := render(passing, size); check.check(text) == nil {
		return text
	}
	return lastResort(check)
}

// lastResort is for an original that contains even the words of our own summary. A
// single word can only repeat an original of that one word.
func lastResort(check excerpts) string {
	if check.check("folded") == nil {
		return "folded"
	}
	return "set-aside"
}

func render(found [factKinds]facts, size string) string {
	var parts []string
	for kind, f := range found {
		if top := f.top(maxFacts); len(top) > 0 {
			var list []string
			for _, fact := range top {
				list = append(list, fact.String())
			}
			parts = append(parts, factNames[kind]+": "+strings.Join(list, ", "))
		}
	}
	return strings.Join(append(parts, size), "; ")
}

var (
	hashForm   = regexp.MustCompile(`^([a-z0-9]{2,10}[:-])?[0-9a-f]{32,128}$`)
	numberForm = regexp.MustCompile(`^[-+]?[0-9]+([.,:][0-9]+)*(%|[A-Za-z]{1,5})?$`)
	// outcomeForm matches a word that says how something ended.
	outcomeForm = regexp.MustCompile(`(?i)^(pass(ed)?|fail(ed|s|ure|ures)?|errors?|ok|success|succeeded|completed?|timeout|timed-out|` +
		`denied|refused|rejected|accepted|approved|cancell?ed|expired|panic|killed|true|false|done|paid|unpaid|verified|invalid|valid)$`)
)

// Bounds of the topic words.
const (
	maxTopics    = 6
	minTopicSize = 4 // bytes
)

// topics returns the most frequent words of ordinary language in alphabetical
// order, so that they read as a list and not as a sentence.
func topics(text string) facts {
	var all facts
	for word := range split(text) {
		word = strings.ToLower(word)
		if len(word) >= minTopicSize && len(word) <= maxFactBytes/2 && isName(word) && !isFunctionWord(word) && !outcomeForm.MatchString(word) {
			all.add("", word)
		}
	}

	list := all.top(maxTopics)
	for i := range list {
		list[i].times = 1 // the count is of no use to the reader
	}
	slices.SortFunc(list, func(a, b fact) int { return strings.Compare(a.value, b.value) })
	return facts{list: list}
}

// kindOf classifies one word; ok is false for ordinary language.
func kindOf(word string) (kind int, ok bool) {
	switch {
	case len(word) > maxSummaryWord || word == "":
		return 0, false
	case hashForm.MatchString(word):
		return factHash, true
	case len(word) > maxFactBytes:
		return 0, false
	case numberForm.MatchString(word):
		return factNumber, true
	case outcomeForm.MatchString(word):
		return factOutcome, true
	}

	return factID, isIdentifier(word)
}

// isIdentifier reports whether a word is an identifier: letters with digits, with a
// joint inside ("a/b", "job_id"), or with a capital inside ("getUser").
func isIdentifier(word string) bool {
	var letters, digits, joints, inner int
	for i, r := range word {
		switch {
		case unicode.IsLetter(r):
			letters++
			if i > 0 && unicode.IsUpper(r) {
				inner++
			}
		case unicode.IsDigit(r):
			digits++
		case strings.ContainsRune("_/.:@#\\+", r):
			joints++
		case r == '-':
		default:
			return false
		}
	}

	return letters > 0 && (digits > 0 || joints > 0 || inner > 0 && inner < letters-1)
}

// extractText classifies each word. A number is kept together with the word before
// it.
func extractText(text string, found *[factKinds]facts) {
	before := ""
	for word := range strings.FieldsSeq(text) {
		word = strings.Trim(word, ".,;:!?()[]{}<>\"'`*=|")
		if name, value, ok := strings.Cut(word, "="); ok {
			if kind, ok := kindOf(value); ok && isName(name) {
				found[kind].add(name, value)
			}
		} else if kind, ok := kindOf(word); ok {
			name := ""
			if kind == factNumber && isName(before) {
				name = before
			}
			found[kind].add(name, word)
		}

		before = word
	}
}

// isName reports whether a word can be the name of a value.
func isName(s string) bool {
	return s != "" && len(s) <= 32 && strings.IndexFunc(s, func(r rune) bool {
		return !unicode.IsLetter(r) && r != '_' && r != '-' && r != '.'
	}) < 0
}
