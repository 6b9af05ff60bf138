package curator

import (
	"cmp"
	"slices"
)

// Reason says why a segment changed its tier.
type Reason string

// The reasons.
const (
	ReasonIrrelevant Reason = "irrelevant" // relevance fell below the threshold
	ReasonRelevant   Reason = "relevant"   // relevance rose to the threshold
	ReasonBudget     Reason = "budget"     // the context as a whole, or this segment alone, was over budget
	ReasonAsked      Reason = "asked"      // the model asked for it by id
	ReasonReturned   Reason = "returned"   // its thread ended
)

// Decision is a change of tier that took effect.
type Decision struct {
	ID        ID
	From, To  Status
	Relevance float64
	Reason    Reason
}

// item is a segment during a turn: Status is its new tier, from its old one.
type item struct {
	Segment
	from          Status
	reason        Reason
	claim         claim
	hasNewSummary bool // Summary was written in this turn
}

// claim says why a segment stays in view regardless of its relevance.
type claim int

const (
	noClaim claim = iota
	newest        // the latest segment, which no prompt has shown yet
	askedBefore
	askedNow
)

// pin marks a segment that the model asked for under the current task.
func (it *item) pin(c claim) { it.claim, it.Relevance, it.reason = c, 1, ReasonAsked }

func (it *item) move(to Status, why Reason) { it.Status, it.reason = to, why }

// byRelevance folds and unfolds each segment by itself, before the whole is over
// budget (AP-6.3.4). A segment that alone exceeds the budget is shown as a summary.
// The newest segment is never folded for irrelevance.
func byRelevance(items []item, foldBelow, unfoldAbove float64, budget int) {
	for i := range items {
		it := &items[i]
		relevant, tooLarge := it.Relevance >= unfoldAbove, it.TokenEstimate > budget
		switch {
		case it.Status == Expanded && tooLarge:
			it.move(Folded, ReasonBudget)
		case it.Status == Expanded && it.Relevance < foldBelow && it.claim == noClaim:
			it.move(Folded, ReasonIrrelevant)
		case it.Status == Evicted && relevant && tooLarge:
			it.move(Folded, ReasonRelevant)
		case it.Status != Expanded && relevant && !tooLarge:
			it.move(Expanded, cmp.Or(it.reason, ReasonRelevant))
		}
	}
}

// keepShorter shows the original where the summary would not be shorter.
func keepShorter(items []item) {
	for i := range items {
		it := &items[i]
		if it.from == Expanded && it.Status == Folded && it.reason == ReasonIrrelevant && EstimateTokens(len(it.Summary)) >= it.TokenEstimate {
			it.Status, it.reason, it.hasNewSummary = Expanded, "", false
		}
	}
}

// cost is what all items cost in a prompt in their current tiers, in tokens.
func cost(items []item) (tokens int) {
	for _, it := range items {
		tokens += it.cost()
	}
	return tokens
}

// byBudget evicts segments until the rest fits the budget: the least relevant
// first, the oldest of equals first, and those with a claim last.
func byBudget(items []item, budget int) {
	total := cost(items)
	order := make([]*item, 0, len(items))
	for i := range items {
		order = append(order, &items[i])
	}
	slices.SortStableFunc(order, func(a, b *item) int {
		return cmp.Or(cmp.Compare(a.claim, b.claim), cmp.Compare(a.Relevance, b.Relevance))
	})

	for _, it := range order {
		if total <= budget {
			return
		}
		total -= it.cost()
		if it.Status != Evicted {
			it.move(Evicted, ReasonBudget)
		}
	}
}

// outcome lists the segments whose tier changed. A segment that the model asked for
// is written even if it was shown already, so that the next turn knows of the
// request.
func outcome(items []item) (decisions []Decision, changes []Change) {
	for _, it := range items {
		moved := it.Status != it.from
		if moved {
			decisions = append(decisions, Decision{it.ID, it.from, it.Status, it.Relevance, it.reason})
		}
		if !moved && it.claim != askedNow {
			continue
		}
		c := Change{ID: it.ID, From: it.from, To: it.Status, Relevance: it.Relevance, AskedFor: it.AskedFor}
		if it.hasNewSummary {
			c.Summary = it.Summary
		}
		changes = append(changes, c)
	}

	return decisions, changes
}
