package panel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// decide takes an open panel to its decision.
func (r *run) decide(ctx context.Context, p Panel) (Panel, error) {
	if p.Rule == RuleFirst {
		return r.decideFirst(ctx, p)
	}
	if p.Rule == RuleJudge && r.c.cfg.Judge == nil {
		return p, fmt.Errorf("%s: %w", p.ID, ErrNoJudge)
	}

	answers, err := r.gather(ctx, p)
	if err != nil {
		return p, err
	}

	d, winners := nobody(), []answer(nil)
	switch {
	case len(answers) == 0:
	case p.Rule.subjective():
		if d, winners, err = r.adjudicate(ctx, p, answers); err != nil {
			return p, err
		}
	default:
		if p, err = r.vote(ctx, p, answers); err != nil {
			return p, err
		}
		d, winners = tally(p, answers)
	}

	d.At = time.Now().UTC()
	if err := r.store(ctx, p, d, winners); err != nil {
		return p, err
	}
	return r.c.cfg.Store.Panel(ctx, p.ID)
}

func nobody() Decision {
	return Decision{Outcome: OutcomeNobody, Reason: "no provider had a valid answer in time"}
}

// cancellation is the signed kind 5 for a member that is not paid.
func (r *run) cancellation(ctx context.Context, m Member) ([]byte, error) {
	return r.c.buyer.Cancellation(ctx, m.RequestID, m.Provider, "not taken by the panel")
}

// vote closes the commits and collects the reveals; the panel that it returns
// has them. Where no majority can come any more nobody is asked.
func (r *run) vote(ctx context.Context, p Panel, answers []answer) (Panel, error) {
	answers = slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return a.commit == nil })
	if !majority(len(answers), p) {
		return p, nil
	}
	if p.Closing == nil {
		ev, err := r.c.closing(ctx, answers)
		if err != nil {
			return p, err
		}
		if err := r.c.cfg.Store.SetClosing(ctx, p.ID, ev); err != nil {
			return p, fmt.Errorf("store closing: %w", err)
		}
		if p, err = r.c.cfg.Store.Panel(ctx, p.ID); err != nil {
			return p, err
		}
	}

	r.panel("closed", "", fmt.Sprintf("%d of %d have committed, and are asked to reveal", len(answers), len(p.Members)))
	if err := r.reveals(ctx, p, answers); err != nil {
		return p, err
	}
	return r.c.cfg.Store.Panel(ctx, p.ID)
}

// majority: more than half of all members, so that who stalls weakens only himself.
func majority(n int, p Panel) bool { return 2*n > len(p.Members) }

// tally counts the reveals. All that agree with the majority win.
func tally(p Panel, answers []answer) (Decision, []answer) {
	votes := map[hashing.Digest]int{}
	for _, s := range p.Members {
		if s.Revealed != nil {
			votes[*s.Revealed]++
		}
	}

	for hash, n := range votes {
		if !majority(n, p) {
			continue
		}
		agrees := func(a answer) bool {
			s := p.member(a.member.RequestID)
			return s != nil && s.Revealed != nil && *s.Revealed == hash
		}
		winners := slices.DeleteFunc(slices.Clone(answers), func(a answer) bool { return !agrees(a) })
		if len(winners) == 0 {
			break // their offers have expired meanwhile
		}

		return Decision{
			Outcome: OutcomeAgreed, Agreement: &hash, Reason: fmt.Sprintf("%d of %d agree", n, len(p.Members)),
		}, winners
	}

	return Decision{Outcome: OutcomeNoConsensus, Reason: fmt.Sprintf("no more than half of the %d providers agree", len(p.Members))}, nil
}

func (p Panel) member(requestID string) *Member {
	i := slices.IndexFunc(p.Members, func(s Member) bool { return s.RequestID == requestID })
	if i < 0 {
		return nil
	}
	return &p.Members[i]
}

// store makes the decision durable, with the reservations of all that it pays.
// A winner that cannot be paid, because its invoice was seen before or the limit
// for its key does not hold it, is dropped, and where only one is taken returned as
// a *MemberError; a decision that the budget of the day does not hold pays nobody.
func (r *run) store(ctx context.Context, p Panel, d Decision, winners []answer) error {
	pay, unfit, err := r.awards(ctx, winners)
	if err != nil {
		return err
	}
	if p.Rule == RuleFirst && len(unfit) > 0 {
		id := winners[0].member.RequestID
		return &MemberError{RequestID: id, Err: errors.New(unfit[id])}
	}

	winners = slices.DeleteFunc(slices.Clone(winners), func(a answer) bool { return unfit[a.member.RequestID] != "" })
	for {
		drop, err := r.drops(ctx, p, d, winners, unfit)
		if err != nil {
			return err
		}
		err = r.c.cfg.Store.Decide(ctx, p.ID, d, pay, drop, r.c.buyer.Limits())

		var member *MemberError
		var over *buyer.BudgetError
		alone := errors.As(err, &over) && over.Limit != "day" // what is left for this one provider
		switch {
		case over != nil && !alone:
			d.Outcome, d.Reason, pay, winners = OutcomeOverBudget, err.Error(), nil, nil
		case errors.As(err, &member) && (alone || errors.Is(err, buyer.ErrSecondPayment)) && p.Rule == RuleFirst:
			return member // another may be taken in its place
		case errors.As(err, &member) && (alone || errors.Is(err, buyer.ErrSecondPayment)):
			unfit[member.RequestID] = member.Err.Error()
			pay = slices.DeleteFunc(pay, func(a buyer.Award) bool { return a.RequestID == member.RequestID })
			winners = slices.DeleteFunc(slices.Clone(winners), func(a answer) bool { return a.member.RequestID == member.RequestID })
		case err != nil:
			return fmt.Errorf("store decision: %w", err)
		default:
			r.announce(ctx, d, pay, winners)
			return nil
		}
	}
}

// awards are those of the winners that cost something, and why others that did
// cannot be paid: the buyer's own rules stand against it.
func (r *run) awards(ctx context.Context, winners []answer) (pay []buyer.Award, unfit map[string]string, err error) {
	unfit = map[string]string{}
	for _, a := range winners {
		if a.offer == nil {
			continue // free, and done
		}

		award, err := r.c.buyer.Award(ctx, a.purchase, a.offer)
		switch {
		case errors.As(err, new(*buyer.ApprovalError)):
			unfit[a.member.RequestID] = err.Error()
		case err != nil:
			return nil, nil, err
		default:
			pay = append(pay, award)
		}
	}

	return pay, unfit, nil
}

// announce tells of the decision and publishes the acceptances; Follow publishes
// them again, so that one does not arrive now is no loss.
func (r *run) announce(ctx context.Context, d Decision, pay []buyer.Award, winners []answer) {
	hash := ""
	if d.Agreement != nil {
		hash = d.Agreement.String()
	}
	r.panel(string(d.Outcome), hash, d.Reason)
	for _, a := range pay {
		i := slices.IndexFunc(winners, func(w answer) bool { return w.member.RequestID == a.RequestID })
		if err := r.c.buyer.Accept(ctx, winners[i].purchase, a); err != nil {
			r.c.cfg.Log.Warn("acceptance not published yet", "request", a.RequestID, "err", err)
		}
	}
}

// drops lists the members that are not paid, each with the reason and a signed
// cancellation.
func (r *run) drops(ctx context.Context, p Panel, d Decision, winners []answer, unfit map[string]string) ([]Drop, error) {
	var list []Drop
	for _, member := range p.Members {
		if slices.ContainsFunc(winners, func(a answer) bool { return a.member.RequestID == member.RequestID }) {
			continue
		}

		why := unfit[member.RequestID]
		switch {
		case why != "":
		case d.Outcome == OutcomeOverBudget, d.Outcome == OutcomeCanceled:
			why = d.Reason
		default:
			why = lost(p, member, d)
		}

		raw, err := r.cancellation(ctx, member)
		if err != nil {
			return nil, err
		}
		list = append(list, Drop{RequestID: member.RequestID, Why: why, Cancel: raw})
	}

	return list, nil
}

// lost says why a member is not among the winners.
func lost(p Panel, member Member, d Decision) string {
	c, closed, _ := p.closing()
	switch {
	case p.Rule == RuleFirst && d.Outcome == OutcomeFirst:
		return "another provider was first"
	case closed && !c.Lists(member.RequestID), d.Outcome == OutcomeNobody:
		return "no commit in time"
	case closed && member.Revealed == nil:
		return "it did not reveal what it committed to"
	case p.Rule.subjective() && d.Output == nil && d.Outcome == OutcomeJudged:
		return "another result was chosen"
	case d.Outcome == OutcomeMerged:
		return "the other results do not bear it out"
	case d.Outcome == OutcomeAgreed:
		return "its result is not what the majority agrees on"
	}

	return d.Reason
}

// commitOf is the commit in a sealed result; nil if it has none.
func commitOf(p buyer.Purchase) (*hashing.Digest, error) {
	if p.SealedEvent == nil {
		return nil, nil
	}
	ev, err := eventOf(p.SealedEvent)
	if err != nil {
		return nil, err
	}
	t := ev.Tags.Find(receipts.TagCommit)
	if t == nil {
		return nil, nil
	}
	commit, err := hashing.ParseDigest(t[1])
	if err != nil {
		return nil, nil // it is no commit
	}
	return &commit, nil
}

// eventOf reads an event that was stored.
func eventOf(raw []byte) (ev nostr.Event, err error) {
	if err = json.Unmarshal(raw, &ev); err != nil {
		err = fmt.Errorf("stored event: %w", err)
	}
	return ev, err
}
