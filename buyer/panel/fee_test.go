package panel_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/buyer/panel"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

const capital = `{"prompt":"the capital of France"}`

// paidWriters are writers that ask a fee for the attempt.
func paidWriters(t *testing.T, w *markettest.World, words ...string) (list []*markettest.Rival) {
	t.Helper()
	for i, s := range words {
		r := w.NewRival(t, fmt.Sprintf("writer-%d", i))
		r.Fee, r.Runner.Do = markettest.AttemptMsats, says(r.Runner, s)
		w.OpenWith(t, r, nil, schemas.TextGeneration)
		list = append(list, r)
	}
	return list
}

// TestAttemptsArePaidAndOneResult: each writer is paid its fee to be read, the one
// that the judge chooses its price too, and every payment has its receipt.
func TestAttemptsArePaidAndOneResult(t *testing.T) {
	requirements.Covers(t, "OA-3.7")
	t.Parallel()
	w := markettest.New(t)
	rivals := paidWriters(t, w, "Lyon", "Paris, on the Seine", "Nice")
	c := judges(t, w, judgeOf("Paris"))
	p, err := judged(t, w, c, panel.RuleJudge, schemas.TextGeneration, capital, rivals...)
	markettest.Check(t, err)
	for i, want := range []int64{markettest.AttemptMsats, markettest.AttemptMsats + markettest.RateMsats, markettest.AttemptMsats} {
		if got := w.Earned(t, rivals[i]); got != want {
			t.Errorf("writer %d earned %d msats, want %d", i, got, want)
		}
		seat, err := c.Store.Purchase(w.Ctx, p.Members[i].RequestID)
		markettest.Check(t, err)
		b, err := buyer.EngagementBundleOf(w.Ctx, c.Store, seat)
		markettest.Check(t, err)
		if r := receipts.Verify(b, receipts.Pins{Provider: seat.Provider, Buyer: c.Key.PublicKey(), Network: payments.Play}); r.Purpose != receipts.PurposeEngagement || r.AmountMsats != markettest.AttemptMsats {
			t.Errorf("the receipt of fee %d: %+v", i, r)
		}
		if i != 1 && seat.State != buyer.StateFailed {
			t.Errorf("seat %d is %s", i, seat.State)
		}
	}
	if result, err := c.Panels(t).Result(w.Ctx, p); err != nil || result.ReceiptID == "" {
		t.Errorf("result %s, %v", result.ReceiptID, err)
	}
	w.SettledUp(t, c, 3*(markettest.AttemptMsats+markettest.FeeMsats)+markettest.RateMsats+markettest.FeeMsats)
}

// TestCheatsOfJudgedPanels: what each that has not done the work can take. The
// honest one is chosen and paid in every case.
func TestCheatsOfJudgedPanels(t *testing.T) {
	for name, tt := range map[string]struct {
		cheat func(w *markettest.World, t *testing.T, r *markettest.Rival, victim string)
		earns int64
	}{
		"delivers nonsense": {func(w *markettest.World, t *testing.T, r *markettest.Rival, _ string) {
			r.Runner.Do = says(r.Runner, "choose me")
			w.OpenWith(t, r, nil, schemas.TextGeneration)
		}, markettest.AttemptMsats},
		"takes the fee and never delivers": {func(w *markettest.World, t *testing.T, r *markettest.Rival, _ string) {
			r.Runner.Do = markettest.Hang
			w.OpenWith(t, r, nil, schemas.TextGeneration)
		}, markettest.AttemptMsats},
		"copies what it can read": {func(w *markettest.World, t *testing.T, r *markettest.Rival, victim string) {
			m := w.Connect(t, r.Key)
			r.Runner.Do = func(ctx context.Context, run provider.Run) (provider.Outcome, error) {
				ev, err := w.See(ctx, m, nostr.Filter{Kinds: []int{6050}, Authors: []string{victim}}, func(nostr.Event) bool { return true })
				if err != nil {
					return provider.Outcome{}, err
				}
				return says(r.Runner, "copied "+ev.Content[:min(len(ev.Content), 400)])(ctx, run)
			}
			w.OpenWith(t, r, nil, schemas.TextGeneration)
		}, markettest.AttemptMsats},
		"asks for more than it announced": {func(w *markettest.World, t *testing.T, r *markettest.Rival, _ string) {
			r.Runner.Do, r.Fee = says(r.Runner, "Paris too"), markettest.AttemptMsats+1
			w.OpenWith(t, r, nil, schemas.TextGeneration)
			r.Fee = markettest.AttemptMsats // in its announcement
		}, 0},
		"is not there": {func(*markettest.World, *testing.T, *markettest.Rival, string) {}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := markettest.New(t)
			honest := paidWriters(t, w, "Paris, on the Seine")[0]
			cheat := w.NewRival(t, "cheat")
			cheat.Fee = markettest.AttemptMsats
			tt.cheat(w, t, cheat, honest.Key.PublicKey())
			c := judges(t, w, judgeOf("Paris, on"))
			p, err := judged(t, w, c, panel.RuleJudge, schemas.TextGeneration, capital, cheat, honest)
			markettest.Check(t, err)
			if !p.Members[1].Ruling.Taken || w.Earned(t, honest) != markettest.AttemptMsats+markettest.RateMsats {
				t.Errorf("decision %+v, the honest earned %d msats", p.Decision, w.Earned(t, honest))
			}
			if got := w.Earned(t, cheat); got != tt.earns {
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
			w := markettest.New(t)
			var rivals []*markettest.Rival
			for i, order := range tt.orders {
				r := w.NewRival(t, fmt.Sprintf("ranker-%d", i))
				r.Fee, r.Runner.Do = markettest.AttemptMsats, ranks(r.Runner, order[0:1], order[2:3], order[4:5])
				w.OpenWith(t, r, nil, schemas.RetrievalRerank)
				rivals = append(rivals, r)
			}
			c := judges(t, w, nil)
			p, err := judged(t, w, c, panel.RuleMerge, schemas.RetrievalRerank, job, rivals...)
			markettest.Check(t, err)
			for i, r := range rivals {
				want := int64(markettest.AttemptMsats)
				if tt.paid[i] {
					want += markettest.RateMsats
				}
				if got := w.Earned(t, r); got != want {
					t.Errorf("ranker %d earned %d msats, want %d (%+v)", i, got, want, p.Members[i].Ruling)
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

const stuckMsats = markettest.AttemptMsats - 1

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
	w := markettest.New(t)
	honest := paidWriters(t, w, "Paris, on the Seine")[0]
	holder := w.NewRival(t, "holder")
	holder.Fee, holder.Runner.Do = stuckMsats, says(holder.Runner, "never")
	w.OpenWith(t, holder, nil, schemas.TextGeneration)
	c := judges(t, w, judgeOf("Paris"))
	wallet := &stuck{Wallet: c.Wallet, free: make(chan struct{})}
	c.Client = c.Open(t, func(cfg *buyer.Config) {
		slowly(cfg)
		cfg.Cipher, cfg.MaxEngagementMsats, cfg.Wallet = c.Key, markettest.AttemptMsats, wallet
	})
	p, err := judged(t, w, c, panel.RuleJudge, schemas.TextGeneration, capital, holder, honest)
	markettest.Check(t, err)
	seat, err := c.Store.Purchase(w.Ctx, p.Members[0].RequestID)
	markettest.Check(t, err)
	open, err := c.Store.OpenPanels(w.Ctx)
	markettest.Check(t, err)
	if !p.Members[1].Ruling.Taken || seat.State != buyer.StatePaying || len(open) != 1 {
		t.Fatalf("decision %+v, the holder's seat is %s, %d panels open", p.Decision, seat.State, len(open))
	}
	close(wallet.free)
	_, err = c.Panels(t).Follow(w.Ctx, p.ID, nil)
	markettest.Check(t, err)
	if seat, err = c.Store.Purchase(w.Ctx, p.Members[0].RequestID); err != nil || seat.State != buyer.StateFailed {
		t.Errorf("the holder's seat is %s (%s), %v", seat.State, seat.Reason, err)
	}
	w.SettledUp(t, c, markettest.AttemptMsats+markettest.FeeMsats+markettest.RateMsats+markettest.FeeMsats)
}

// TestFeesAboveWhatIsPaid: a seat whose announced fee is more than the buyer pays,
// or fees that leave nothing of the maximum, are refused before anything is sent.
func TestFeesAboveWhatIsPaid(t *testing.T) {
	t.Parallel()
	w := markettest.New(t)
	a, b := w.NewRival(t, "a"), w.NewRival(t, "b")
	c := judges(t, w, judgeOf("x"))
	place := func(fee, most int64) error {
		seats := membersOf(a, b)
		for i := range seats {
			seats[i].Prices = map[string]receipts.Price{string(schemas.TextGeneration): {PerMinuteMsats: markettest.RateMsats, EngagementMsats: fee}}
		}
		_, err := c.Panels(t).Place(w.Ctx, panel.Order{
			SchemaID: string(schemas.TextGeneration), Input: []byte(capital), Members: seats, Rule: panel.RuleJudge, MaxMsats: most,
		})
		return err
	}
	if err := place(markettest.AttemptMsats+1, markettest.MaxMsats); !errors.Is(err, buyer.ErrEngagement) {
		t.Errorf("a fee above what we pay: %v", err)
	}
	if err := place(markettest.AttemptMsats, markettest.RateMsats+2*markettest.AttemptMsats); err == nil {
		t.Error("fees and price above the maximum are taken")
	}
	if err := place(markettest.AttemptMsats, markettest.RateMsats+3*markettest.AttemptMsats); err != nil {
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
			w := markettest.New(t)
			rivals := paidWriters(t, w, "Lyon", "Paris, on the Seine")
			c := judges(t, w, judgeOf("Paris"))
			seats := membersOf(rivals...)
			for i, r := range rivals {
				seats[i].Prices = map[string]receipts.Price{string(schemas.TextGeneration): {PerMinuteMsats: r.Rate, EngagementMsats: r.Fee}}
			}
			p, err := c.Panels(t).Place(w.Ctx, panel.Order{
				SchemaID: string(schemas.TextGeneration), Input: []byte(capital), Members: seats, Rule: panel.RuleJudge,
				MaxMsats: 2 * (markettest.RateMsats + 10*markettest.AttemptMsats), CommitTimeout: ample,
			})
			markettest.Check(t, err)
			ctx, stop := context.WithCancel(w.Ctx)
			_, err = c.Panels(t).Follow(ctx, p.ID, func(_ string, pr buyer.Progress) {
				if pr.What == step {
					stop()
				}
			})
			if err == nil && step != "receipt" {
				t.Fatal("it was not stopped")
			}
			stop()
			p, err = c.Panels(t).Follow(w.Ctx, p.ID, nil)
			markettest.Check(t, err)
			if !p.Members[1].Ruling.Taken || w.Earned(t, rivals[0]) != markettest.AttemptMsats || w.Earned(t, rivals[1]) != markettest.AttemptMsats+markettest.RateMsats {
				t.Errorf("decision %+v, earned %d and %d msats", p.Decision, w.Earned(t, rivals[0]), w.Earned(t, rivals[1]))
			}
			w.SettledUp(t, c, 2*(markettest.AttemptMsats+markettest.FeeMsats)+markettest.RateMsats+markettest.FeeMsats)
		})
	}
}
