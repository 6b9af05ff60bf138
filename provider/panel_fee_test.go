package provider_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

const capital = `{"prompt":"the capital of France"}`

// paidWriters are writers that ask a fee for the attempt.
func (w *world) paidWriters(t *testing.T, words ...string) (list []*rival) {
	t.Helper()
	for i, s := range words {
		r := w.rival(t, fmt.Sprintf("writer-%d", i))
		r.fee, r.runner.do = attemptMsats, says(r.runner, s)
		w.openWith(t, r, nil, schemas.TextGeneration)
		list = append(list, r)
	}
	return list
}

// TestAttemptsArePaidAndOneResult: each writer is paid its fee to be read, the one
// that the judge chooses its price too, and every payment has its receipt.
func TestAttemptsArePaidAndOneResult(t *testing.T) {
	requirements.Covers(t, "OA-3.7")
	t.Parallel()
	w := newWorld(t)
	rivals := w.paidWriters(t, "Lyon", "Paris, on the Seine", "Nice")
	c := w.judges(t, judgeOf("Paris"))
	p, err := w.judged(t, c, buyer.RuleJudge, schemas.TextGeneration, capital, rivals...)
	check(t, err)
	for i, want := range []int64{attemptMsats, attemptMsats + rateMsats, attemptMsats} {
		if got := w.earned(t, rivals[i]); got != want {
			t.Errorf("writer %d earned %d msats, want %d", i, got, want)
		}
		seat, err := c.store.Purchase(w.ctx, p.Seats[i].RequestID)
		check(t, err)
		b, err := buyer.EngagementBundleOf(w.ctx, c.store, seat)
		check(t, err)
		if r := receipts.Verify(b, receipts.Pins{Provider: seat.Provider, Buyer: c.key.PublicKey(), Network: payments.Play}); r.Purpose != receipts.PurposeEngagement || r.AmountMsats != attemptMsats {
			t.Errorf("the receipt of fee %d: %+v", i, r)
		}
		if i != 1 && seat.State != buyer.StateFailed {
			t.Errorf("seat %d is %s", i, seat.State)
		}
	}
	if result, err := c.client.PanelResult(w.ctx, p); err != nil || result.ReceiptID == "" {
		t.Errorf("result %s, %v", result.ReceiptID, err)
	}
	w.settledUp(t, c, 3*(attemptMsats+feeMsats)+rateMsats+feeMsats)
}

// TestCheatsOfJudgedPanels: what each that has not done the work can take. The
// honest one is chosen and paid in every case.
func TestCheatsOfJudgedPanels(t *testing.T) {
	for name, tt := range map[string]struct {
		cheat func(w *world, t *testing.T, r *rival, victim string)
		earns int64
	}{
		"delivers nonsense": {func(w *world, t *testing.T, r *rival, _ string) {
			r.runner.do = says(r.runner, "choose me")
			w.openWith(t, r, nil, schemas.TextGeneration)
		}, attemptMsats},
		"takes the fee and never delivers": {func(w *world, t *testing.T, r *rival, _ string) {
			r.runner.do = hang
			w.openWith(t, r, nil, schemas.TextGeneration)
		}, attemptMsats},
		"copies what it can read": {func(w *world, t *testing.T, r *rival, victim string) {
			m := w.connect(t, r.key)
			r.runner.do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
				ev, err := w.see(ctx, m, nostr.Filter{Kinds: []int{6050}, Authors: []string{victim}}, func(nostr.Event) bool { return true })
				if err != nil {
					return provider.Outcome{}, err
				}
				return says(r.runner, "copied "+ev.Content[:min(len(ev.Content), 400)])(ctx, run)
			}
			w.openWith(t, r, nil, schemas.TextGeneration)
		}, attemptMsats},
		"asks for more than it announced": {func(w *world, t *testing.T, r *rival, _ string) {
			r.runner.do, r.fee = says(r.runner, "Paris too"), attemptMsats+1
			w.openWith(t, r, nil, schemas.TextGeneration)
			r.fee = attemptMsats // in its announcement
		}, 0},
		"is not there": {func(*world, *testing.T, *rival, string) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			honest := w.paidWriters(t, "Paris, on the Seine")[0]
			cheat := w.rival(t, "cheat")
			cheat.fee = attemptMsats
			tt.cheat(w, t, cheat, honest.key.PublicKey())
			c := w.judges(t, judgeOf("Paris, on"))
			p, err := w.judged(t, c, buyer.RuleJudge, schemas.TextGeneration, capital, cheat, honest)
			check(t, err)
			if !p.Seats[1].Ruling.Taken || w.earned(t, honest) != attemptMsats+rateMsats {
				t.Errorf("decision %+v, the honest earned %d msats", p.Decision, w.earned(t, honest))
			}
			if got := w.earned(t, cheat); got != tt.earns {
				t.Errorf("the cheat earned %d msats, want %d", got, tt.earns)
			}
		})
	}
}

// TestColludersInAMerge: with fewer than half of the results they get their fees;
// with more, what a vote of theirs would get them, and the document says so.
func TestColludersInAMerge(t *testing.T) {
	const job = `{"user_task":"find","candidates":[{"id":"a","content":"x"},{"id":"b","content":"y"},{"id":"c","content":"z"}],"k":3}`
	for name, tt := range map[string]struct {
		orders []string
		paid   []bool
	}{
		"fewer": {[]string{"a b c", "a b c", "a c b", "c b a", "c b a"}, []bool{true, true, true, false, false}},
		"more":  {[]string{"a b c", "c b a", "c b a"}, []bool{false, true, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var rivals []*rival
			for i, order := range tt.orders {
				r := w.rival(t, fmt.Sprintf("ranker-%d", i))
				r.fee, r.runner.do = attemptMsats, ranks(r.runner, order[0:1], order[2:3], order[4:5])
				w.openWith(t, r, nil, schemas.RetrievalRerank)
				rivals = append(rivals, r)
			}
			c := w.judges(t, nil)
			p, err := w.judged(t, c, buyer.RuleMerge, schemas.RetrievalRerank, job, rivals...)
			check(t, err)
			for i, r := range rivals {
				want := int64(attemptMsats)
				if tt.paid[i] {
					want += rateMsats
				}
				if got := w.earned(t, r); got != want {
					t.Errorf("ranker %d earned %d msats, want %d (%+v)", i, got, want, p.Seats[i].Ruling)
				}
			}
		})
	}
}

// stuck is a wallet in which one payment stays under way until it is let go.
type stuck struct {
	buyer.Wallet
	invoice atomic.Pointer[string] // the first that is sent
	free    chan struct{}
}

func (s *stuck) isStuck(hash payments.Hash) bool {
	held := s.invoice.Load()
	select {
	case <-s.free:
		return false
	default:
		return held != nil && *held == hash.String()
	}
}

func (s *stuck) SendPayment(ctx context.Context, pay payments.Pay) error {
	if pay.AmountMsats == stuckMsats {
		return nil // it is on its way, says the wallet
	}
	return s.Wallet.SendPayment(ctx, pay)
}

const stuckMsats = attemptMsats - 1

func (s *stuck) LookupPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	if s.isStuck(hash) {
		return payments.Payment{Hash: hash, State: payments.PaymentInFlight, AmountMsats: stuckMsats}, nil
	}
	p, err := s.Wallet.LookupPayment(ctx, hash)
	if held := s.invoice.Load(); errors.Is(err, payments.ErrNotFound) && held != nil && *held == hash.String() {
		return payments.Payment{Hash: hash, State: payments.PaymentFailed, AmountMsats: stuckMsats, FailureReason: "timeout"}, nil
	}
	return p, err
}

func (s *stuck) TrackPayment(ctx context.Context, hash payments.Hash) (payments.Payment, error) {
	text := hash.String()
	p, err := s.Wallet.LookupPayment(ctx, hash)
	if errors.Is(err, payments.ErrNotFound) { // only the one that was not sent
		s.invoice.Store(&text)
		<-ctx.Done()
		return payments.Payment{}, ctx.Err()
	}
	if err == nil && p.State.Terminal() {
		return p, nil
	}
	return s.Wallet.TrackPayment(ctx, hash)
}

// TestHeldFeeHoldsUpNobody: a provider that holds on to the payment of its fee has
// no seat when the time is up; the others' result is bought, the budget stays
// reserved until the wallet says what became of it, and then it is free again.
func TestHeldFeeHoldsUpNobody(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	honest := w.paidWriters(t, "Paris, on the Seine")[0]
	holder := w.rival(t, "holder")
	holder.fee, holder.runner.do = stuckMsats, says(holder.runner, "never")
	w.openWith(t, holder, nil, schemas.TextGeneration)
	c := w.judges(t, nil)
	wallet := &stuck{Wallet: c.wallet, free: make(chan struct{})}
	c.client = c.open(t, func(cfg *buyer.Config) {
		slowly(cfg)
		cfg.Cipher, cfg.Judge, cfg.MaxEngagementMsats, cfg.Wallet = c.key, judgeOf("Paris"), attemptMsats, wallet
	})
	p, err := w.judged(t, c, buyer.RuleJudge, schemas.TextGeneration, capital, holder, honest)
	check(t, err)
	seat, err := c.store.Purchase(w.ctx, p.Seats[0].RequestID)
	check(t, err)
	open, err := c.store.OpenPanels(w.ctx)
	check(t, err)
	if !p.Seats[1].Ruling.Taken || seat.State != buyer.StatePaying || len(open) != 1 {
		t.Fatalf("decision %+v, the holder's seat is %s, %d panels open", p.Decision, seat.State, len(open))
	}
	close(wallet.free)
	_, err = c.client.FollowPanel(w.ctx, p.ID, nil)
	check(t, err)
	if seat, err = c.store.Purchase(w.ctx, p.Seats[0].RequestID); err != nil || seat.State != buyer.StateFailed {
		t.Errorf("the holder's seat is %s (%s), %v", seat.State, seat.Reason, err)
	}
	w.settledUp(t, c, attemptMsats+feeMsats+rateMsats+feeMsats)
}

// TestFeesAboveWhatIsPaid: a seat whose announced fee is more than the buyer pays,
// or fees that leave nothing of the maximum, are refused before anything is sent.
func TestFeesAboveWhatIsPaid(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a, b := w.rival(t, "a"), w.rival(t, "b")
	c := w.judges(t, judgeOf("x"))
	place := func(fee, most int64) error {
		seats := seatsOf(a, b)
		for i := range seats {
			seats[i].Prices = map[string]receipts.Price{string(schemas.TextGeneration): {PerMinuteMsats: rateMsats, EngagementMsats: fee}}
		}
		_, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
			SchemaID: string(schemas.TextGeneration), Input: []byte(capital), Seats: seats, Rule: buyer.RuleJudge, MaxMsats: most,
		})
		return err
	}
	if err := place(attemptMsats+1, maxMsats); !errors.Is(err, buyer.ErrEngagement) {
		t.Errorf("a fee above what we pay: %v", err)
	}
	if err := place(attemptMsats, rateMsats+2*attemptMsats); err == nil {
		t.Error("fees and price above the maximum are taken")
	}
	if err := place(attemptMsats, rateMsats+3*attemptMsats); err != nil {
		t.Errorf("fees and price within the maximum: %v", err)
	}
}

// TestJudgedPanelAfterRestart: a buyer that stops after any step goes on from
// there: no fee is paid twice, and the judge is asked again only if it had not
// decided.
func TestJudgedPanelAfterRestart(t *testing.T) {
	for _, step := range []string{"accepted", "paid", "result", "ballot", "judged", "receipt"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			rivals := w.paidWriters(t, "Lyon", "Paris, on the Seine")
			c := w.judges(t, judgeOf("Paris"))
			seats := seatsOf(rivals...)
			for i, r := range rivals {
				seats[i].Prices = map[string]receipts.Price{string(schemas.TextGeneration): {PerMinuteMsats: r.rate, EngagementMsats: r.fee}}
			}
			p, err := c.client.PlacePanel(w.ctx, buyer.PanelOrder{
				SchemaID: string(schemas.TextGeneration), Input: []byte(capital), Seats: seats, Rule: buyer.RuleJudge,
				MaxMsats: 2 * (rateMsats + 10*attemptMsats), CommitTimeout: ample,
			})
			check(t, err)
			ctx, stop := context.WithCancel(w.ctx)
			_, err = c.client.FollowPanel(ctx, p.ID, func(_ string, pr buyer.Progress) {
				if pr.What == step {
					stop()
				}
			})
			if err == nil && step != "receipt" {
				t.Fatal("it was not stopped")
			}
			stop()
			p, err = c.client.FollowPanel(w.ctx, p.ID, nil)
			check(t, err)
			if !p.Seats[1].Ruling.Taken || w.earned(t, rivals[0]) != attemptMsats || w.earned(t, rivals[1]) != attemptMsats+rateMsats {
				t.Errorf("decision %+v, earned %d and %d msats", p.Decision, w.earned(t, rivals[0]), w.earned(t, rivals[1]))
			}
			w.settledUp(t, c, 2*(attemptMsats+feeMsats)+rateMsats+feeMsats)
		})
	}
}
