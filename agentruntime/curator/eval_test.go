package curator_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/curator"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// The evaluation asks a reader with a small window about a long history.
const (
	evalProjects = 60
	evalWindow   = 2000 // tokens the reader can see
)

// history is one report a project, each with a number that is asked for, in
// words that the reports share.
func history(rnd *rand.Rand) (reports, questions, answers []string) {
	names := make([]string, evalProjects)
	for i := range names {
		names[i] = fmt.Sprintf("%s%s", []string{"falcon", "heron", "otter", "badger", "lynx", "marten"}[i%6],
			[]string{"north", "south", "east", "west", "upper", "lower", "inner", "outer", "first", "last"}[i/6])
	}
	for _, name := range names {
		port := fmt.Sprint(20000 + rnd.IntN(40000))
		filler := strings.Repeat("the team met, reviewed the open points, wrote minutes and agreed to meet again; nothing else changed that week. ", 4)
		reports = append(reports, fmt.Sprintf("Report on %s. %s The service of %s listens on port %s since the last release.", name, filler, name, port))
		questions = append(questions, fmt.Sprintf("On which port does the service of %s listen?", name))
		answers = append(answers, port)
	}
	return reports, questions, answers
}

// reader is the mock model: it sees the end of the prompt, as far as its window
// goes, and answers with the port in the sentence that has the project's name.
func reader(prompt, question string) string {
	prompt = prompt[max(0, len(prompt)-4*evalWindow):]
	fields := strings.Fields(question)
	name := fields[len(fields)-2]
	for sentence := range strings.SplitSeq(prompt, ". ") {
		if _, port, ok := strings.Cut(sentence, name+" listens on port "); ok {
			return strings.Fields(port)[0]
		}
	}
	return ""
}

// TestFocusedAgainstFullHistory reports; it asserts nothing about which is better.
func TestFocusedAgainstFullHistory(t *testing.T) {
	requirements.Covers(t, "AP-6.3.5")
	reports, questions, answers := history(rand.New(rand.NewPCG(1, 2)))
	w := newWorld(t, curator.Config{Budget: evalWindow})
	w.put(t, reports...)
	full := strings.Join(reports, "\n")
	var fullRight, focusedRight, focusedTokens int
	for i, question := range questions {
		view, _ := w.turn(t, question)
		var prompt strings.Builder
		for _, s := range view.Items {
			fmt.Fprintf(&prompt, "%s\n", s.Content)
		}
		focusedTokens += view.Tokens
		if reader(full, question) == answers[i] {
			fullRight++
		}
		if reader(prompt.String(), question) == answers[i] {
			focusedRight++
		}
	}
	t.Logf("%d questions, window of %d tokens: full history %d right at %d tokens a prompt, focused %d right at %d",
		len(questions), evalWindow, fullRight, curator.EstimateTokens(len(full)), focusedRight, focusedTokens/len(questions))
}

func BenchmarkTurn(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(n, "-segments"), func(b *testing.B) {
			w := newWorld(b, curator.Config{})
			for i := range n {
				w.put(b, fmt.Sprint(i, " ", []string{billing, parsing, weather}[i%3]))
			}
			tasks := []string{"parser tests bracket", "invoice hosting paid"}
			w.turn(b, tasks[1])
			for i := 0; b.Loop(); i++ {
				w.turn(b, tasks[i%2])
			}
		})
	}
}
