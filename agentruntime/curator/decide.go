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
	ReasonBudget     Reason = "budget"     // the whole, or it alone, was over budget
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

// item is a segment in a turn: Status is where it is to be, from where it was.
type item struct {
	Segment
	from   Status
	reason Reason
	claim  claim
	made   bool // Summary is new
}

// claim is what a segment has beside its relevance to stay in view.
type claim int

const (
	noClaim claim = iota
	newest        // it is what was just said: no prompt has shown it yet
	askedBefore
	askedNow
)

// wanted marks what the model asked for under the task at hand.
func (it *item) wanted(c claim) { it.claim, it.Relevance, it.reason = c, 1, ReasonAsked }

func (it *item) move(to Status, why Reason) { it.Status, it.reason = to, why }

// byRelevance folds and unfolds without regard to the whole: this comes before
// any pressure (AP-6.3.4). What is alone over the budget is shown as a summary.
// The newest segment is not folded for irrelevance.
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

// keepShorter shows in full what a summary would not make shorter.
func keepShorter(items []item) {
	for i := range items {
		it := &items[i]
		if it.from == Expanded && it.Status == Folded && it.reason == ReasonIrrelevant && EstimateTokens(len(it.Summary)) >= it.TokenEstimate {
			it.Status, it.reason, it.made = Expanded, "", false
		}
	}
}

// cost is what the prompt pays for all of them as they stand, in tokens.
func cost(items []item) (tokens int) {
	for _, it := range items {
		tokens += it.cost()
	}
	return tokens
}

// byBudget evicts the least relevant, among equals the oldest, until the rest is
// within the budget. Segments with a claim come last.
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

// outcome lists what is different in the end. A segment that is shown already
// and was asked for is written too, or the next turn would not know of it.
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
		if it.made {
			c.Summary = it.Summary
		}
		changes = append(changes, c)
	}

	return decisions, changes
}
