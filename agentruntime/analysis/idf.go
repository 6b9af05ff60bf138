package analysis

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

//go:generate go run gen_idf.go

// idfText has a line "stem tenths" for every common word stem: ten times the
// natural logarithm of (all texts / texts with the word).
//
//go:embed idf.txt
var idfText string

// functionWords say nothing about the subject of a text.
const functionWords = `a about above after again all also am an and any are as at be because been before
being below between both but by can could did do does doing down during each few for from further had has
have having he her here hers him his how i if in into is it its itself just me more most my no nor not now
of off on once only or other our ours out over own please same shall she should so some such than that the
their theirs them then there these they this those through to too under until up upon us very was we were
what when where whether which while who whom whose why will with would you your yours s t don`

// Inverse document frequencies, in tenths.
const (
	rareIDF     = 80 // of a word that is not in the table: 1 text in 3,000
	functionIDF = 10
)

// wordStats are statistics of English words in general.
type wordStats struct {
	idf      map[string]int64 // by stem, tenths
	function map[string]bool  // by stem
}

var english = sync.OnceValue(func() wordStats {
	s := wordStats{idf: map[string]int64{}, function: map[string]bool{}}
	for line := range strings.Lines(idfText) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseInt(value, 10, 64); ok && err == nil {
			s.idf[name] = n
		}
	}
	for _, w := range strings.Fields(functionWords) {
		s.function[stem(w)] = true
		s.idf[stem(w)] = functionIDF
	}
	return s
})

// idf returns the inverse document frequency of a stem, in tenths.
func idf(stem string) int64 {
	if n, ok := english().idf[stem]; ok {
		return n
	}
	return rareIDF
}

func isFunctionWord(stem string) bool { return english().function[stem] }
