package panel

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/schemas"
)

// worth says what the votes of a panel are about, and where they prove little.
type worth struct {
	Compared    string   `json:"compared,omitempty"`     // what results have to share to agree
	NotCompared string   `json:"not_compared,omitempty"` // what they need not
	Warnings    []string `json:"warnings,omitempty"`
}

// show prints it below or before what a panel came to.
func (w worth) show(out io.Writer) {
	if w.Compared != "" {
		fmt.Fprintf(out, "compared   %s\n", w.Compared)
	}
	if w.NotCompared != "" {
		fmt.Fprintf(out, "not        %s\n", w.NotCompared)
	}
	for _, warning := range w.Warnings {
		fmt.Fprintf(out, "warning    %s\n", warning)
	}
}

// worthOf weighs a panel by the purchases of its seats, which are in the order of
// Panel.Members. It knows more once results are there.
func worthOf(p panel.Panel, seats []buyer.Purchase) worth {
	var w worth
	if p.Rule == panel.RuleFirst {
		return w
	}
	var req *schemas.Request
	if p.Rule == panel.RuleMajority {
		if req = panelRequest(seats); req != nil {
			w.Compared, w.NotCompared = req.Compared()
		}
	}

	// Keys cost nothing; a Lightning node of one's own for each does.
	byPayee := map[string][]int{}
	for i, s := range seats {
		if s.PayeeNode != "" {
			byPayee[s.PayeeNode] = append(byPayee[s.PayeeNode], i+1)
		}
	}

	for i, s := range seats {
		if same := byPayee[s.PayeeNode]; len(same) > 1 && same[0] == i+1 {
			w.Warnings = append(w.Warnings, fmt.Sprintf("seats %s are paid at one Lightning node: if they have one owner, their votes are one opinion", seatList(same)))
		}
	}

	if p.Decision == nil || p.Decision.Outcome != panel.OutcomeAgreed || req == nil {
		return w
	}
	if run, ok := req.Value.(*schemas.SandboxRunRequest); ok && !run.Verification.CompareStdout {
		w.Warnings = append(w.Warnings, printedApart(seats)...)
	}
	return w
}

// printedApart warns of sandbox results that agree although little or nothing of
// what the commands made was compared.
func printedApart(seats []buyer.Purchase) (warnings []string) {
	const remedy = "use --compare-stdout, or let them write into $LIGHTWORK_ARTIFACTS"

	var agreed []int
	var first []schemas.SandboxRunInfo
	differ, left := false, false
	for i, s := range seats {
		result, ok := purchase.SandboxResult(s)
		if !ok || s.State != buyer.StateDone {
			continue
		}
		if agreed = append(agreed, i+1); len(agreed) == 1 {
			first, left = result.Runs, len(result.Artifacts) > 0
		}
		differ = differ || !slices.EqualFunc(first, result.Runs, func(a, b schemas.SandboxRunInfo) bool { return a.StdoutSHA256 == b.StdoutSHA256 })
	}

	if len(agreed) == 0 {
		return nil
	}
	if !left {
		warnings = append(warnings, "no command left an artifact, so only exit codes were compared, not what the commands printed: "+remedy)
	}
	if differ {
		warnings = append(warnings, fmt.Sprintf("at seats %s, which agree, the commands did not print the same; shown is what they printed at seat %d", seatList(agreed), agreed[0]))
	}
	return warnings
}

// panelRequest is the one document that all seats were given; nil if it cannot be read.
func panelRequest(seats []buyer.Purchase) *schemas.Request {
	if len(seats) == 0 {
		return nil
	}
	order, err := buyer.OrderOf(seats[0])
	if err != nil {
		return nil
	}
	s, ok := schemas.Lookup(order.SchemaID)
	if !ok {
		return nil
	}
	req, err := s.ParseRequest(order.Input)
	if err != nil {
		return nil
	}
	return req
}

func seatList(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprint(n)
	}
	return strings.Join(words, ", ")
}
