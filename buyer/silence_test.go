package buyer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// impatient is how long a test waits for what does not come; what does come is
// there in a fraction of it.
func impatient(cfg *buyer.Config) {
	cfg.AnswerTimeout, cfg.ReceiptTimeout = time.Second, time.Second
}

// word is a provider's feedback of some status.
func (c *cheat) word(req nostr.Event, status, content string, more ...nostr.Tag) nostr.Event {
	return c.event(c.key, 7000, append(nostr.Tags{{"status", status}, {"e", req.ID}, {"p", req.PubKey}}, more...), content)
}

// TestNobodyIsWaitedForForever: every way in which a provider can fall silent
// before money moved ends with the reason.
func TestNobodyIsWaitedForForever(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(*cheat, nostr.Event) []nostr.Event
		want   string
		state  buyer.State
	}{
		"no answer": {
			func(*cheat, nostr.Event) []nostr.Event { return nil },
			"no_answer: the provider did not answer", buyer.StateFailed,
		},
		"began, and no more": {
			func(c *cheat, req nostr.Event) []nostr.Event { return []nostr.Event{c.word(req, "processing", "")} },
			"no_answer: the provider began and was not heard of again", buyer.StateFailed,
		},
		"result, and no request to pay": {
			func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{c.result(req, func(a *answer) { a.set("amount", "20000") })}
			},
			"has not asked for its payment", buyer.StateRequested,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waiting := 0
			c, p, err := playWith(t, tt.answer, nil, func(pr buyer.Progress) {
				if pr.What == "waiting" {
					waiting++
				}
			}, impatient)
			if err == nil || !strings.Contains(err.Error(), tt.want) || p.State != tt.state {
				t.Errorf("purchase %s (%s), %v", p.State, p.Reason, err)
			}
			if unanswered := name == "no answer"; waiting > 1 || unanswered && waiting == 0 {
				t.Errorf("said %d times that no answer came", waiting)
			}
			if len(c.sent) != 0 {
				t.Errorf("paid %+v", c.sent)
			}
		})
	}
}

// TestTalkIsNoWork: a provider that says for ever that it works, and delivers nothing,
// is given up as one that falls silent is; so is one that asks for no payment.
func TestTalkIsNoWork(t *testing.T) {
	for name, tt := range map[string]struct {
		first func(*cheat, nostr.Event) []nostr.Event
		want  string
	}{
		"nothing delivered": {
			func(*cheat, nostr.Event) []nostr.Event { return nil },
			"no_answer: the provider began, and has said for ",
		},
		"delivered, and no request to pay": {
			func(c *cheat, req nostr.Event) []nostr.Event {
				return []nostr.Event{c.result(req, func(a *answer) { a.set("amount", "20000") })}
			},
			"has not asked for its payment",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan struct{})
				began := time.Now()
				_, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
					go func() {
						for n := 0; ; n++ {
							select {
							case c.out <- c.word(req, "processing", fmt.Sprint(n)):
							case <-ended:
								return
							}
							select {
							case <-time.After(20 * time.Second):
							case <-ended:
								return
							}
						}
					}()
					return tt.first(c, req)
				}, nil, nil, func(*buyer.Config) {})
				close(ended)
				if err == nil || !strings.Contains(err.Error(), tt.want) {
					t.Errorf("purchase %s (%s), %v", p.State, p.Reason, err)
				}
				if took := time.Since(began); took < 11*time.Minute || took > 40*time.Minute {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// TestStuckPaymentIsSaid: a payment that the wallet takes for in flight is
// waited for, said, and never made again; its budget stays reserved.
func TestStuckPaymentIsSaid(t *testing.T) {
	said := false
	var cheater *cheat
	c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		c.stuck, cheater = true, c
		return []nostr.Event{c.offer(req, func(*deal) {})}
	}, nil, func(pr buyer.Progress) {
		if pr.What == "in_flight" && pr.Msats == price {
			said = true
			cheater.stop()
		}
	}, impatient)
	if !errors.Is(err, context.Canceled) || p.State != buyer.StatePaying || !said || len(c.sent) != 1 {
		t.Errorf("purchase %s (%s), said %v, sent %d, %v", p.State, p.Reason, said, len(c.sent), err)
	}
}

// TestFreeQuoteBinds: a free job's quote comes with the first word about it,
// and the result must be bound to it.
func TestFreeQuoteBinds(t *testing.T) {
	free := func(c *cheat, req nostr.Event, change func(*deal)) nostr.Event {
		ev := c.offer(req, func(d *deal) {
			d.quote.Mode, d.quote.PriceMsats, d.quote.PaymentHash, d.quote.PayeeNode = receipts.ModeFree, 0, nil, nil
			change(d)
		})
		return c.word(req, "processing", ev.Content, domain.Quote.Tag())
	}
	t.Run("bound", func(t *testing.T) {
		_, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
			word := free(c, req, func(*deal) {})
			return []nostr.Event{word, c.result(req, func(a *answer) { a.set("quote_hash", hashing.Bytes([]byte(word.Content)).String()) })}
		}, nil, buyer.Limits{})
		if err != nil || p.State != buyer.StateDone {
			t.Errorf("purchase %s (%s), %v", p.State, p.Reason, err)
		}
	})
	t.Run("another quote", func(t *testing.T) {
		_, p, err := play(t, func(c *cheat, req nostr.Event) []nostr.Event {
			return []nostr.Event{free(c, req, func(*deal) {}), c.result(req, func(*answer) {}), c.end(req)}
		}, nil, buyer.Limits{})
		if !errors.Is(err, buyer.ErrFailed) || p.Output != nil {
			t.Errorf("purchase %s (%s), %v", p.State, p.Reason, err)
		}
	})
	t.Run("without its domain", func(t *testing.T) {
		refused := false
		_, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
			return []nostr.Event{c.word(req, "processing", free(c, req, func(*deal) {}).Content), c.end(req)}
		}, nil, func(pr buyer.Progress) {
			refused = refused || pr.What == "refused" && strings.Contains(pr.Text, string(domain.Quote))
		}, func(*buyer.Config) {})
		if !errors.Is(err, buyer.ErrFailed) || !refused {
			t.Errorf("purchase %s (%s), %v; said to be refused: %v", p.State, p.Reason, err, refused)
		}
	})
	t.Run("not for this request", func(t *testing.T) {
		refused := false
		_, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
			return []nostr.Event{free(c, req, func(d *deal) { d.quote.JobHash = hashing.Bytes(nil) }), c.end(req)}
		}, nil, func(pr buyer.Progress) {
			refused = refused || pr.What == "refused" && strings.Contains(pr.Text, "job_hash")
		}, func(*buyer.Config) {})
		if !errors.Is(err, buyer.ErrFailed) || !refused {
			t.Errorf("purchase %s (%s), %v; said to be refused: %v", p.State, p.Reason, err, refused)
		}
	})
}

// TestPaidForAndCanceledEnds: a provider that has the money and is silent keeps a
// purchase open until its buyer cancels it and the job's time has passed since the
// payment, and no longer. With the result and without a receipt it is done.
func TestPaidForAndCanceledEnds(t *testing.T) {
	bound := func(c *cheat, req, offer nostr.Event) nostr.Event {
		return c.result(req, func(a *answer) { a.set("quote_hash", quoteHash(offer)) })
	}
	nothing := func(*cheat, nostr.Event, nostr.Event) []nostr.Event { return nil }
	for name, tt := range map[string]struct {
		more  func(*cheat, nostr.Event, nostr.Event) []nostr.Event // with the offer
		last  func(*cheat, nostr.Event, nostr.Event)               // after a day, meanwhile
		state buyer.State
		want  string
	}{
		"nothing came": {nothing, nil, buyer.StateFailed, "paid, no result"},
		"no receipt came": {
			func(c *cheat, req, offer nostr.Event) []nostr.Event { return []nostr.Event{bound(c, req, offer)} }, nil,
			buyer.StateDone, "without receipt",
		},
		"it is heard of again": {nothing, func(c *cheat, req, offer nostr.Event) {
			for n := range 5 {
				time.Sleep(time.Minute)
				c.out <- c.word(req, "processing", fmt.Sprint(n))
			}
			c.out <- bound(c, req, offer)
		}, buyer.StateDone, "without receipt"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var cfg buyer.Config
				var req, offer nostr.Event
				c, p, err := playWith(t, func(c *cheat, asked nostr.Event) []nostr.Event {
					if c.pays { // it is asked again
						return nil
					}
					c.pays, req, offer = true, asked, c.offer(asked, func(*deal) {})
					return append([]nostr.Event{offer}, tt.more(c, req, offer)...)
				}, nil, nil, func(made *buyer.Config) { cfg = *made })
				if !errors.Is(err, buyer.ErrIncomplete) || p.State != buyer.StatePaid || len(c.sent) != 1 {
					t.Fatalf("%v, %s: %q", err, p.State, p.Reason)
				}

				client, err := buyer.New(cfg)
				check(t, err)
				check(t, client.Cancel(t.Context(), p.RequestID))
				p, err = client.Follow(t.Context(), p.RequestID, nil)
				if !errors.Is(err, buyer.ErrIncomplete) || p.State != buyer.StatePaid {
					t.Fatalf("ended minutes after its payment: %v, %s: %q", err, p.State, p.Reason)
				}

				time.Sleep(24 * time.Hour)
				if tt.last != nil {
					go tt.last(c, req, offer)
				}
				p, err = client.Follow(t.Context(), p.RequestID, nil)
				if p.State != tt.state || !strings.HasPrefix(p.Reason, tt.want) || errors.Is(err, buyer.ErrFailed) != (tt.state == buyer.StateFailed) {
					t.Errorf("%v, %s: %q", err, p.State, p.Reason)
				}
				all, err := c.store.History(t.Context())
				if lost := all[p.Provider].Lost; err != nil || lost != 1 && tt.state == buyer.StateFailed || lost != 0 && tt.state == buyer.StateDone {
					t.Errorf("%d purchases were paid for nothing (%v)", lost, err)
				}
			})
		})
	}
}
