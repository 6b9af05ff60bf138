package panel_test

import (
	"context"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestMajorityPaysThoseThatAgree: three honest providers, each paid its price,
// each with a receipt; the result is there and the request says what the vote was.
func TestMajorityPaysThoseThatAgree(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	rivals := w.Honest(t, 3)
	c := w.NewCustomer(t, markettest.Unhurried)
	p := placePanel(t, w, c, panel.RuleMajority, rivals...)
	if _, err := c.Client.Follow(w.Ctx, p.Members[0].RequestID, nil); !errors.Is(err, buyer.ErrPanelOpen) {
		t.Errorf("a seat is followed apart from its panel: %v", err)
	}
	p, err := c.Panels(t).Follow(w.Ctx, p.ID, nil)
	markettest.Check(t, err)
	if p.Decision.Outcome != panel.OutcomeAgreed || p.Decision.Agreement == nil || p.Tier() != "redundancy_consensus" {
		t.Errorf("decision %+v", p.Decision)
	}
	result, err := c.Panels(t).Result(w.Ctx, p)
	if err != nil || result.Output == nil {
		t.Errorf("result %s, %v", result.Output, err)
	}
	for i, r := range rivals {
		if got := w.Earned(t, r); got != markettest.RateMsats {
			t.Errorf("provider %d earned %d msats", i, got)
		}
		proved(t, w, c, p.Members[i])
	}
	w.SettledUp(t, c, 3*(markettest.RateMsats+markettest.FeeMsats))
	if again, err := c.Panels(t).Follow(w.Ctx, p.ID, nil); err != nil || again.Decision.At != p.Decision.At {
		t.Errorf("followed once more: %+v, %v", again.Decision, err)
	}
	w.SettledUp(t, c, 3*(markettest.RateMsats+markettest.FeeMsats))
}

// attack is what the liar of a panel does, besides delivering rubbish: how it
// changes what it signs. victim is one of the honest.
type attack struct {
	lie func(s spy, me *markettest.Rival) func(context.Context, *nostr.Event) error
	// why is in the ruling on its seat.
	why string
}

var attacks = map[string]attack{
	"delivers rubbish": {nil, "not what the majority agrees on"},
	"copies commit and reveal": {func(s spy, _ *markettest.Rival) func(context.Context, *nostr.Event) error {
		return func(ctx context.Context, ev *nostr.Event) error {
			return s.change(ctx, ev, func(t nostr.Tag) error {
				commit, err := s.commit(ctx)
				t[1] = commit
				return err
			}, func(mine *receipts.Reveal) error {
				theirs, err := s.reveal(ctx)
				mine.AgreementHash, mine.Nonce = theirs.AgreementHash, theirs.Nonce
				return err
			})
		}
	}, "did not reveal what it committed to"},
	"reveals another hash than it committed to": {func(s spy, _ *markettest.Rival) func(context.Context, *nostr.Event) error {
		return func(ctx context.Context, ev *nostr.Event) error {
			return s.change(ctx, ev, nil, func(mine *receipts.Reveal) error {
				theirs, err := s.reveal(ctx)
				mine.AgreementHash = theirs.AgreementHash
				return err
			})
		}
	}, "did not reveal what it committed to"},
	"waits for a reveal before it commits": {func(s spy, me *markettest.Rival) func(context.Context, *nostr.Event) error {
		return func(ctx context.Context, ev *nostr.Event) error {
			return s.change(ctx, ev, func(t nostr.Tag) error {
				theirs, err := s.reveal(ctx)
				if err != nil {
					return err
				}
				commit, err := receipts.Commit(me.Key.PublicKey(), theirs.AgreementHash, receipts.CommitNonce{1})
				t[1] = commit.String()
				return err
			}, nil)
		}
	}, "no commit in time"},
	"never reveals": {func(s spy, _ *markettest.Rival) func(context.Context, *nostr.Event) error {
		return func(ctx context.Context, ev *nostr.Event) error {
			return s.change(ctx, ev, nil, func(*receipts.Reveal) error { return errors.New("not telling") })
		}
	}, "did not reveal what it committed to"},
}

// change applies a lie to the event that it is about, and leaves all others.
func (s spy) change(_ context.Context, ev *nostr.Event, commit func(nostr.Tag) error, reveal func(*receipts.Reveal) error) error {
	if t := ev.Tags.Find(receipts.TagCommit); t != nil && commit != nil {
		return commit(t)
	}
	if !isReveal(*ev) || reveal == nil {
		return nil
	}
	mine, err := receipts.ParseReveal([]byte(ev.Content))
	if err != nil {
		return err
	}
	if err := reveal(&mine); err != nil {
		return err
	}
	content, err := mine.Canonical()
	ev.Content = string(content)
	return err
}

// TestLiarEarnsNothing: whatever a provider does that has not done the work, it
// is not paid, and the honest are.
func TestLiarEarnsNothing(t *testing.T) {
	for name, a := range attacks {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			rivals := w.Honest(t, 2)
			liar := w.NewRival(t, "liar")
			liar.Runner.Do = rubbish(liar.Runner)
			var lie func(context.Context, *nostr.Event) error
			if a.lie != nil {
				lie = a.lie(spy{w, w.Connect(t, liar.Key), rivals[0].Key.PublicKey()}, liar)
			}
			w.Open(t, liar, lie)
			c := w.NewCustomer(t, markettest.Unhurried)
			p := placePanel(t, w, c, panel.RuleMajority, liar, rivals[0], rivals[1])
			p, err := c.Panels(t).Follow(w.Ctx, p.ID, nil)
			markettest.Check(t, err)
			if p.Decision.Outcome != panel.OutcomeAgreed || p.Members[0].Ruling.Taken || !strings.Contains(p.Members[0].Ruling.Why, a.why) {
				t.Errorf("decision %+v, the liar: %+v", p.Decision, p.Members[0].Ruling)
			}
			if got := w.Earned(t, liar); got != 0 {
				t.Errorf("the liar earned %d msats", got)
			}
			for i, r := range rivals {
				if got := w.Earned(t, r); got != markettest.RateMsats {
					t.Errorf("honest provider %d earned %d msats", i, got)
				}
				proved(t, w, c, p.Members[i+1])
			}
			w.SettledUp(t, c, 2*(markettest.RateMsats+markettest.FeeMsats))
		})
	}
}

// TestColluders: those that agree on a lie earn nothing while they are fewer than
// half; a majority of liars is the limit of what a vote can do, and the document
// says so. Without a majority nobody is paid.
func TestColluders(t *testing.T) {
	for name, tt := range map[string]struct {
		honest, liars int
		outcome       panel.Outcome
	}{
		"a minority": {3, 2, panel.OutcomeAgreed},
		"half":       {2, 2, panel.OutcomeNoConsensus},
		"a majority": {1, 2, panel.OutcomeAgreed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			rivals := w.Honest(t, tt.honest)
			for i := range tt.liars {
				liar := w.NewRival(t, "liar-"+string(rune('a'+i)))
				liar.Runner.Do = rubbish(liar.Runner)
				w.Open(t, liar, nil)
				rivals = append(rivals, liar)
			}
			c := w.NewCustomer(t, markettest.Unhurried)
			p := placePanel(t, w, c, panel.RuleMajority, rivals...)
			p, err := c.Panels(t).Follow(w.Ctx, p.ID, nil)
			if errors.Is(err, panel.ErrNoConsensus) != (tt.outcome == panel.OutcomeNoConsensus) || p.Decision == nil || p.Decision.Outcome != tt.outcome {
				t.Fatalf("decision %+v, %v", p.Decision, err)
			}
			spent := int64(0)
			for i, r := range rivals {
				isHonest := i < tt.honest
				want := int64(0)
				if tt.outcome == panel.OutcomeAgreed && isHonest == (tt.honest > tt.liars) {
					want = markettest.RateMsats
					spent += markettest.RateMsats + markettest.FeeMsats
				}
				if got := w.Earned(t, r); got != want {
					t.Errorf("provider %d (honest: %v) earned %d msats, want %d", i, isHonest, got, want)
				}
			}
			w.SettledUp(t, c, spent)
		})
	}
}

// TestGuessedAnswer: who guesses the answer commits to it without the work and is
// paid; what it sealed shows it, its seat fails, and the panel has its result
// from the others.
func TestGuessedAnswer(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	rivals := w.Honest(t, 2)
	guesser := w.NewRival(t, "guesser")
	guesser.Runner.Do = rubbish(guesser.Runner)
	nonce := receipts.CommitNonce{9}
	var guess hashing.Digest
	w.Open(t, guesser, func(ctx context.Context, ev *nostr.Event) error {
		return spy{}.change(ctx, ev, func(tag nostr.Tag) error {
			commit, err := receipts.Commit(guesser.Key.PublicKey(), guess, nonce)
			tag[1] = commit.String()
			return err
		}, func(mine *receipts.Reveal) error {
			mine.AgreementHash, mine.Nonce = guess, hex.EncodeToString(nonce[:])
			return nil
		})
	})
	c := w.NewCustomer(t, markettest.Unhurried)
	first := placePanel(t, w, c, panel.RuleMajority, rivals...) // an earlier panel tells the answer
	first, err := c.Panels(t).Follow(w.Ctx, first.ID, nil)
	markettest.Check(t, err)
	guess = *first.Decision.Agreement
	p := placePanel(t, w, c, panel.RuleMajority, guesser, rivals[0], rivals[1])
	p, err = c.Panels(t).Follow(w.Ctx, p.ID, nil)
	markettest.Check(t, err)
	seat, err := c.Store.Purchase(w.Ctx, p.Members[0].RequestID)
	markettest.Check(t, err)
	if seat.State != buyer.StateFailed || !strings.Contains(seat.Reason, "not the one that was revealed") || w.Earned(t, guesser) != markettest.RateMsats {
		t.Errorf("the guesser's seat is %s (%s), it earned %d msats", seat.State, seat.Reason, w.Earned(t, guesser))
	}
	if result, err := c.Panels(t).Result(w.Ctx, p); err != nil || result.Provider == guesser.Key.PublicKey() {
		t.Errorf("the result is of %s, %v", result.Provider, err)
	}
	w.SettledUp(t, c, 5*(markettest.RateMsats+markettest.FeeMsats))
}
