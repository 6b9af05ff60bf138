package curator

import (
	"math"
	"strings"
)

// maxTerm is the length in bytes at which a term is cut.
const maxTerm = 64

// lexical scores how much of the task's vocabulary a text has: the weights of the
// task's terms that occur in the text, divided by the weights of all its terms. The
// fewer texts contain a term, the more it weighs. The same task and texts give the
// same scores on every machine.
func lexical(task string, texts []string) []float64 {
	scores := make([]float64, len(texts))

	wanted := terms(task)
	has := make([]map[string]bool, len(texts))
	count := map[string]int{}
	for i, text := range texts {
		has[i] = map[string]bool{}
		for _, term := range terms(text) {
			has[i][term] = true
		}
		for _, term := range wanted {
			if has[i][term] {
				count[term]++
			}
		}
	}

	total := 0.0
	for _, term := range wanted {
		weight := math.Log1p(float64(len(texts)+1) / float64(count[term]+1))
		total += weight
		for i := range texts {
			if has[i][term] {
				scores[i] += weight
			}
		}
	}

	for i := range scores {
		if total > 0 {
			scores[i] /= total
		}
	}

	return scores
}

// functionWords say nothing about the subject of a text.
const functionWords = " a an and are as at be by can do for from has have how i in is it its may me my not of on or our please" +
	" so than that the their them then there these they this to us was we were what when where which who will with you your "

// terms returns the distinct words of a text in lower case, in the order of their
// first occurrence.
func terms(text string) []string {
	var list []string
	seen := map[string]bool{}
	for term := range split(text) {
		term = strings.ToLower(term[:min(len(term), maxTerm)])
		if seen[term] || isFunctionWord(term) {
			continue
		}
		seen[term] = true
		list = append(list, term)
	}
	return list
}

func isFunctionWord(term string) bool { return strings.Contains(functionWords, " "+term+" ") }
