// Package panel gives one job to several providers and makes one result of what
// they deliver: the first, what most of them agree on, what a judge chooses, or all
// of them merged. It decides who is paid; each member is bought from as any provider.
package panel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// Rule says how what several providers deliver becomes one result, and so who
// is paid.
type Rule string

const (
	// RuleFirst: the first valid answer is taken and paid, no other.
	RuleFirst Rule = "first"
	// RuleMajority: what more than half of the members agree on, by agreement hash;
	// all of those are paid, no other. Providers commit before they see anything
	// of each other, and reveal once nobody can commit any more.
	RuleMajority Rule = "majority"
	// RuleJudge: a judge, who is not told whose they are, chooses one of the
	// results; its provider is paid the price, the others only what they asked for
	// the attempt. Every request is encrypted.
	RuleJudge Rule = "judge"
	// RuleMerge: the result is made of all of them, by a rule that anybody can
	// repeat; those that the others bear out are paid the price. Every request is
	// encrypted.
	RuleMerge Rule = "merge"
)

// subjective rules read results before they are paid for, so providers may ask
// for the attempt, and nobody but the buyer may read along.
func (r Rule) subjective() bool { return r == RuleJudge || r == RuleMerge }

// adjudication is what the request states of the rule; "" states nothing.
func (r Rule) adjudication() schemas.Adjudication {
	switch r {
	case RuleMajority:
		return schemas.MajorityVote
	case RuleJudge:
		return schemas.JudgeModel
	case RuleMerge:
		return schemas.Merge
	}
	return ""
}

// Errors of a panel.
var (
	// ErrNoConsensus: the panel decided that no result is to be paid.
	ErrNoConsensus = errors.New("the panel came to no result, nothing is paid")
	// ErrAboveMaximum: what the members announce costs more than may be paid.
	ErrAboveMaximum = errors.New("the announced prices are above the maximum")
	// ErrNoJudge: the panel needs a judge, and none is configured. There is no
	// other way to choose: what a program without a model would prefer says nothing.
	ErrNoJudge = errors.New("no judge is configured for the results (buyer.judge: an agent that thinks, docs/build-agents/thinking-agents.md)")
	// ErrJudge: the judge could not be asked. The panel is open.
	ErrJudge = errors.New("the judge did not answer")
)

// Outcome is what a panel decided.
type Outcome string

// The outcomes. Only the first four pay for a result.
const (
	OutcomeFirst       Outcome = "first"
	OutcomeAgreed      Outcome = "agreed"
	OutcomeJudged      Outcome = "judged"
	OutcomeMerged      Outcome = "merged"
	OutcomeRejected    Outcome = "rejected" // the judge finds none good
	OutcomeNoConsensus Outcome = "no_consensus"
	OutcomeNobody      Outcome = "nobody" // no valid answer in time
	OutcomeOverBudget  Outcome = "over_budget"
	OutcomeCanceled    Outcome = "canceled"
)

// Panel is one job given to several providers. Each member is a purchase of its
// own; the panel only decides which of them are paid.
//
//	open -> closed (majority: commits no longer count) -> decided -> every member has ended
type Panel struct {
	ID       string // "panel_" and 16 hex digits
	SchemaID string
	JobHash  hashing.Digest
	Rule     Rule
	MaxMsats int64     // of all members together, routing fees included
	Deadline time.Time // for answers and commits
	AddedAt  time.Time
	Members  []Member

	Closing  []byte    // our signed event that ended the commits; nil before
	Decision *Decision // nil until it is decided, then for good
}

// Tier names what stands behind the result, in the words of OA-3.7: one
// provider's reputation, what redundant providers have in common, or a judge.
func (p Panel) Tier() string {
	switch p.Rule {
	case RuleMajority, RuleMerge:
		return "redundancy_consensus"
	case RuleJudge:
		return "judge"
	}
	return "reputation_only"
}

// Member is one provider of a panel.
type Member struct {
	RequestID string // its purchase
	Provider  string // x-only hex
	// Revealed is the agreement hash that opened the member's commit.
	Revealed *hashing.Digest
	Ruling   *Ruling // nil until the panel decided
}

// Ruling is what the panel decided of one member.
type Ruling struct {
	Taken bool // and paid, unless it is free
	Why   string
}

// Decision is what a panel decided, once.
type Decision struct {
	Outcome   Outcome
	Agreement *hashing.Digest // of the result that is paid for, where there was a vote
	Reason    string
	At        time.Time
	// Output is the merged result, canonical; nil where a member's is taken.
	Output []byte
	// Record is an [Adjudication] as JSON; nil unless there was one.
	Record []byte
}

// Drop is a member that is not paid.
type Drop struct {
	RequestID string
	Why       string
	Cancel    []byte // signed kind 5
}

// MemberError says for which member a decision could not be stored.
type MemberError struct {
	RequestID string
	Err       error
}

func (e *MemberError) Error() string { return fmt.Sprintf("member %s: %v", e.RequestID, e.Err) }
func (e *MemberError) Unwrap() error { return e.Err }

// Store keeps panels. Every method that changes anything is one durable
// transaction.
type Store interface {
	// AddPanel stores a panel with the purchases of its members, all or none.
	AddPanel(ctx context.Context, p Panel, members []buyer.Purchase) error
	Panel(ctx context.Context, id string) (Panel, error)

	// SetClosing keeps the event that ends the commits; the first stays.
	// buyer.ErrConflict once the panel is decided.
	SetClosing(ctx context.Context, id string, event []byte) error
	// SetReveal keeps a reveal that opens the member's commit; the first stays.
	// buyer.ErrConflict unless the panel's commits are closed and it is not decided.
	SetReveal(ctx context.Context, requestID string, agreement hashing.Digest, event []byte) error
	// Decide stores the decision. In the same transaction every award is reserved
	// as Reserve would, against the limits with all those before it, and every
	// dropped member ends as failed. A member that cannot be reserved is a *MemberError
	// around what Reserve would say, and nothing is stored. buyer.ErrConflict if the
	// panel is decided.
	Decide(ctx context.Context, id string, d Decision, pay []buyer.Award, drop []Drop, l buyer.Limits) error
}

// storedMax bounds a stored event, in bytes.
const storedMax = 1 << 20

// closing is the parsed content of the closing event; false before there is one.
func (p Panel) closing() (receipts.Closing, bool, error) {
	if p.Closing == nil {
		return receipts.Closing{}, false, nil
	}
	ev, err := receipts.ParseEvent(p.Closing, storedMax)
	if err != nil {
		return receipts.Closing{}, false, fmt.Errorf("stored closing: %w", err)
	}
	c, err := receipts.ParseClosing([]byte(ev.Content))
	if err != nil {
		return receipts.Closing{}, false, fmt.Errorf("stored closing: %w", err)
	}
	return c, true, nil
}
