package panel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/buyer/adjudicate"
	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/schemas"
)

const (
	// ballotsMax is how often a judge is asked, each time in another order: two
	// ballots that name the same result decide.
	ballotsMax = 5
	// judgeTimeout bounds one question.
	judgeTimeout = 5 * time.Minute
)

// Adjudication is how a panel came from several results to one, for the record.
// Results are named by the request of their member.
type Adjudication struct {
	Ballots []Ballot             `json:"ballots,omitempty"` // a judge's
	Carried []string             `json:"carried,omitempty"` // by a merge: those that the others bear out
	Support []adjudicate.Support `json:"support,omitempty"`
}

// Ballot is one question to the judge and its answer.
type Ballot struct {
	Order   []string `json:"order"`            // as the results were numbered
	Choice  string   `json:"choice,omitempty"` // "": none, or spoiled
	Why     string   `json:"why,omitempty"`
	Spoiled string   `json:"spoiled,omitempty"` // why the answer was none
}

// adjudicate comes from the results of those that answered to one. Nothing is
// stored or paid here: after a crash it is done again.
func (r *run) adjudicate(ctx context.Context, p Panel, answers []answer) (Decision, []answer, error) {
	// Who answered first is no argument.
	slices.SortFunc(answers, func(a, b answer) int { return strings.Compare(a.member.RequestID, b.member.RequestID) })
	_, req, err := answers[0].purchase.Job()
	if err != nil {
		return Decision{}, nil, err
	}

	s, _ := schemas.Lookup(p.SchemaID)
	results := make([]*schemas.Result, len(answers))
	for i, a := range answers {
		if results[i], err = s.ParseResult(a.purchase.Output); err != nil {
			return Decision{}, nil, fmt.Errorf("stored result: %w", err)
		}
	}

	if p.Rule == RuleMerge {
		return r.merge(p, req, answers, results)
	}
	return r.judge(ctx, req, answers, results)
}

// merge needs more than half of the members: of one result there is nothing to merge.
func (r *run) merge(p Panel, req *schemas.Request, answers []answer, results []*schemas.Result) (Decision, []answer, error) {
	if !majority(len(results), p) || len(results) < 2 {
		return Decision{Outcome: OutcomeNoConsensus, Reason: fmt.Sprintf("%d of %d delivered: too few to merge", len(results), len(p.Members))}, nil, nil
	}
	m, err := adjudicate.Merge(req, results, r.c.buyer.PublicKey())
	if err != nil {
		return Decision{}, nil, err
	}

	var winners []answer
	record := Adjudication{Support: m.Support}
	for i, a := range answers {
		if m.Carried[i] {
			winners = append(winners, a)
			record.Carried = append(record.Carried, a.member.RequestID)
		}
	}

	d := Decision{Outcome: OutcomeMerged, Output: m.Output, Reason: fmt.Sprintf("merged of %d, %d of them borne out by the others", len(results), len(winners))}
	if len(winners) == 0 {
		d = Decision{Outcome: OutcomeNoConsensus, Reason: "no result is borne out by the others"}
	}
	d.Record, err = json.Marshal(record)
	return d, winners, err
}

// judge asks until two ballots name the same result. The order is drawn anew each
// time, so that a place in it, or a text that argues for one, decides nothing.
func (r *run) judge(ctx context.Context, req *schemas.Request, answers []answer, results []*schemas.Result) (Decision, []answer, error) {
	votes := map[int]int{}
	var record Adjudication
	for range ballotsMax {
		ballot, choice, err := r.ask(ctx, req, answers, results)
		if err != nil {
			return Decision{}, nil, err
		}
		record.Ballots = append(record.Ballots, ballot)
		if ballot.Spoiled != "" {
			continue
		}
		if votes[choice]++; votes[choice] < 2 {
			continue
		}

		d := Decision{Outcome: OutcomeJudged, Reason: fmt.Sprintf("chosen of %d: %s", len(results), text.Clean(ballot.Why))}
		var winners []answer
		if choice == adjudicate.None {
			d = Decision{Outcome: OutcomeRejected, Reason: fmt.Sprintf("the judge finds none of %d good: %s", len(results), text.Clean(ballot.Why))}
		} else {
			winners = answers[choice : choice+1]
		}

		d.Record, err = json.Marshal(record)
		return d, winners, err
	}

	d := Decision{Outcome: OutcomeNoConsensus, Reason: fmt.Sprintf("the judge came to no choice in %d ballots", ballotsMax)}
	var err error
	d.Record, err = json.Marshal(record)
	return d, nil, err
}

// ask puts one ballot to the judge. An answer that is no choice is a ballot too;
// an error that wraps ErrJudge leaves the panel open.
func (r *run) ask(ctx context.Context, req *schemas.Request, answers []answer, results []*schemas.Result) (b Ballot, choice int, err error) {
	order := rand.Perm(len(results))
	question, err := adjudicate.NewBallot(req, results, order)
	if err != nil {
		return b, 0, err
	}
	for _, i := range order {
		b.Order = append(b.Order, answers[i].member.RequestID)
	}
	asking, cancel := context.WithTimeout(ctx, judgeTimeout)
	defer cancel()

	said, err := r.c.cfg.Judge(asking, question.Text())
	if ctx.Err() != nil {
		return b, 0, ctx.Err()
	}
	if err != nil {
		return b, 0, fmt.Errorf("%w: %w", ErrJudge, err)
	}

	choice, why, err := question.Choice(said)
	switch {
	case errors.Is(err, adjudicate.ErrSpoiled):
		b.Spoiled = text.Clean(err.Error())
		r.panel("spoiled", "", b.Spoiled)
	case err != nil:
		return b, 0, err
	default:
		b.Why = text.Clean(why)
		if choice != adjudicate.None {
			b.Choice = answers[choice].member.RequestID
		}
		r.panel("ballot", "", b.Why)
	}

	return b, choice, nil
}
