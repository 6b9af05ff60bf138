package buyer_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// boxed is a sealed result as an honest provider would send it; a case changes
// something before it is committed to, or after.
type boxed struct {
	seal  receipts.Seal            // what the event commits to
	list  []receipts.SealedContent // of the seal
	key   receipts.SealKey         // of the boxes
	boxes [][]byte
	tags  nostr.Tags
}

// sealed makes the 6050 of a sealed result and serves its boxes.
func (c *cheat) sealed(req, offer nostr.Event, inside func(*answer), before, after func(*boxed)) nostr.Event {
	plain := c.result(req, inside)
	quote, id := hashing.Bytes([]byte(offer.Content)), req.ID
	b := boxed{list: []receipts.SealedContent{
		{Role: receipts.RoleResult, Digest: hashing.Bytes([]byte(plain.Content)), Size: int64(len(plain.Content))},
	}}
	some := hashing.Bytes([]byte("some"))
	output, err := hashing.ParseDigest(plain.Tags.Find("output_hash")[1])
	if err != nil {
		c.t.Error(err)
	}
	b.seal = receipts.NewSeal(receipts.ResultTerms{
		OutputHash: output, PlanHash: some, TrajectoryHash: some, RedactedTrajectoryHash: some, ReplayHash: some,
	}, b.list)
	if before != nil {
		before(&b)
	}
	doc, err := b.seal.Canonical()
	if err != nil {
		c.t.Error(err)
	}
	commitment := hashing.Bytes(doc)
	if b.key, err = receipts.NewSealKey(secret, quote, id, commitment); err != nil {
		c.t.Error(err)
	}
	if b.boxes, err = b.key.SealAll(doc, [][]byte{[]byte(plain.Content)}); err != nil {
		c.t.Error(err)
	}
	b.tags = nostr.Tags{
		{"e", req.ID},
		{"p", req.PubKey},
		plain.Tags.Find("job_hash"),
		{"quote_hash", quote.String()},
		{"commitment", commitment.String()},
		domain.Result.Tag(),
	}
	if after != nil {
		after(&b)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blobs = map[hashing.Digest][]byte{}
	for _, box := range b.boxes {
		c.blobs[hashing.Bytes(box)] = box
		b.tags = append(b.tags, nostr.Tag{"blob", "sealed", hashing.Bytes(box).String(), fmt.Sprint(len(box)), "application/octet-stream"})
	}
	return c.event(c.key, 6050, b.tags, "")
}

// sell plays a whole sealed sale: the offer, the boxes, the payment.
func sell(t *testing.T, mode receipts.Mode, inside func(*answer), before, after func(*boxed)) (*cheat, buyer.Purchase, error) {
	t.Helper()
	return playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		c.pays = true
		offer := c.offer(req, func(d *deal) { d.quote.Mode, d.quote.Delivery = mode, receipts.DeliverySealed })
		return []nostr.Event{offer, c.sealed(req, offer, inside, before, after)}
	}, nil, nil, func(cfg *buyer.Config) { cfg.ReceiptTimeout, cfg.AnswerTimeout = time.Second, 2*time.Second })
}

// TestSealedResultIsOpened: the payment's preimage opens what was delivered
// before, in the modes that can do so.
func TestSealedResultIsOpened(t *testing.T) {
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePostpay} {
		c, p, err := sell(t, mode, func(*answer) {}, nil, nil)
		if !errors.Is(err, buyer.ErrIncomplete) || p.Output == nil || p.SealedEvent == nil || len(c.sent) != 1 {
			t.Errorf("%s: %v, %s, output %s, sent %d", mode, err, p.Reason, p.Output, len(c.sent))
		}
		if r := ruled(t, c, p); r.Verdict != receipts.VerdictDelivered || r.ExitCode() != receipts.ExitFailed {
			t.Errorf("disputed all the same: %+v", r)
		}
	}
}

// TestBoxesAreCountedAsInADispute: an encrypted blob that calls itself sealed is no box
// of the sealed result. Were it one, the true boxes would not open for the buyer,
// and would for whoever judges.
func TestBoxesAreCountedAsInADispute(t *testing.T) {
	c, p, err := playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		c.pays = true
		offer := c.offer(req, func(d *deal) { d.quote.Mode, d.quote.Delivery = receipts.ModePostpay, receipts.DeliverySealed })
		data, output := []byte("no box"), hashing.Bytes([]byte("output"))
		key, err := receipts.NewSealKey(secret, hashing.Bytes([]byte(offer.Content)), req.ID, output)
		if err != nil {
			c.t.Error(err)
		}
		box, err := key.Seal(0, data)
		if err != nil {
			c.t.Error(err)
		}

		result := c.sealed(req, offer, func(*answer) {}, nil, func(b *boxed) {
			b.tags = append(
				b.tags, nostr.Tag{"key", hex.EncodeToString(secret[:])}, nostr.Tag{"output_hash", output.String()},
				nostr.Tag{
					"box", receipts.RoleSealed, hashing.Bytes(data).String(), fmt.Sprint(len(data)),
					hashing.Bytes(box).String(), fmt.Sprint(len(box)), "application/octet-stream",
				},
			)
		})
		c.mu.Lock()
		defer c.mu.Unlock()
		c.blobs[hashing.Bytes(box)] = box
		return []nostr.Event{offer, result}
	}, nil, nil, func(cfg *buyer.Config) { cfg.ReceiptTimeout, cfg.AnswerTimeout = time.Second, 2*time.Second })
	if !errors.Is(err, buyer.ErrIncomplete) || p.Output == nil || len(c.sent) != 1 {
		t.Errorf("%v, %s, output %s, sent %d", err, p.Reason, p.Output, len(c.sent))
	}
	if r := ruled(t, c, p); r.Verdict != receipts.VerdictDelivered {
		t.Errorf("ruled %+v", r)
	}
}

// ruled is what a stranger makes of the buyer's evidence, once it was written to
// files and read again.
func ruled(t *testing.T, c *cheat, p buyer.Purchase) receipts.Ruling {
	t.Helper()
	d, err := buyer.DisputeOf(t.Context(), c.store, p)
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	for name, data := range d.Files() {
		files[name] = &fstest.MapFile{Data: data}
	}
	if d, err = receipts.ReadDispute(files, receipts.Limits{}); err != nil {
		t.Fatal(err)
	}
	return d.Rule(receipts.Pins{Provider: c.key.PublicKey()})
}

// TestFalseBoxIsTold: a box that is not what its event committed to is paid for,
// for nobody can look into it before; then it is told, and its evidence stays.
func TestFalseBoxIsTold(t *testing.T) {
	flip := func(i int) func(*boxed) {
		return func(b *boxed) { b.boxes[i][len(b.boxes[i])-1] ^= 1 }
	}
	for name, tt := range map[string]struct {
		inside        func(*answer)
		before, after func(*boxed)
		want          string
		// otherwise: the box holds what was committed to, which is no result.
		otherwise bool
	}{
		"noise in a box":  {after: flip(0), want: "false box: number 0 does not open"},
		"half a box":      {after: func(b *boxed) { b.boxes[0] = b.boxes[0][:len(b.boxes[0])/2] }, want: "false box: number 0 does not open"},
		"a box too many":  {after: func(b *boxed) { b.boxes = append(b.boxes, []byte("noise")) }, want: "false box: number 0 holds 16384 bytes"},
		"another output":  {before: func(b *boxed) { b.seal.OutputHash = hashing.Bytes([]byte("x")) }, want: "output_hash differs", otherwise: true},
		"another content": {before: func(b *boxed) { b.seal.Contents[0].Digest = hashing.Bytes([]byte("x")) }, want: "false box: content 1 is another result"},
		"an artifact in no box": {inside: func(a *answer) {
			a.result.Artifacts = []schemas.SandboxArtifact{{Path: "out", SHA256: hashing.Bytes([]byte("x")), SizeBytes: 1}}
		}, want: "artifact", otherwise: true},
		"an error for a result": {inside: func(a *answer) {
			a.result.Status, a.result.Error = schemas.StatusError, "no"
		}, want: "its status is error", otherwise: true},
		"a result for others": {inside: func(a *answer) { a.result.Runs[0].Cmd = "false" }, want: "result mismatch", otherwise: true},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.inside == nil {
				tt.inside = func(*answer) {}
			}
			c, p, err := sell(t, receipts.ModePostpay, tt.inside, tt.before, tt.after)
			if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, tt.want) {
				t.Errorf("%v: %s", err, p.Reason)
			}
			r := ruled(t, c, p)
			if want := map[bool]receipts.Verdict{false: receipts.VerdictFalseBox, true: receipts.VerdictNoAnswer}[tt.otherwise]; r.Verdict != want || r.ExitCode() != receipts.ExitProved {
				t.Errorf("ruling %+v", r)
			}
			if p.Output != nil || p.SealedEvent == nil || p.Payment == nil || p.Quote == nil || len(c.sent) != 1 {
				t.Errorf("output %s, sent %d", p.Output, len(c.sent))
			}
		})
	}
}

// TestSealedIsAgreedOn: a box that nobody asked for is neither believed nor paid,
// and neither is a result in the clear where a sealed one was promised.
func TestSealedIsAgreedOn(t *testing.T) {
	sealedOffer := func(c *cheat, req nostr.Event) nostr.Event {
		return c.offer(req, func(d *deal) { d.quote.Mode, d.quote.Delivery = receipts.ModePostpay, receipts.DeliverySealed })
	}
	c, p, err := order(t, func(c *cheat, req nostr.Event) []nostr.Event {
		offer := sealedOffer(c, req)
		return []nostr.Event{c.sealed(req, offer, func(*answer) {}, nil, nil), offer}
	}, buyer.Order{Delivery: receipts.DeliveryPlain})
	if !errors.Is(err, buyer.ErrFailed) || !strings.Contains(p.Reason, "was not asked for") || p.SealedEvent != nil || len(c.sent) != 0 {
		t.Errorf("not asked for: %v, %s, sent %d", err, p.Reason, len(c.sent))
	}
	c, p, err = playWith(t, func(c *cheat, req nostr.Event) []nostr.Event {
		c.pays = true
		offer := c.offer(req, func(d *deal) { d.quote.Delivery = receipts.DeliverySealed })
		c.out <- offer
		return []nostr.Event{c.result(req, func(a *answer) {
			a.set("amount", fmt.Sprint(price))
			a.set("quote_hash", hashing.Bytes([]byte(offer.Content)).String())
		})}
	}, nil, nil, func(cfg *buyer.Config) { cfg.ReceiptTimeout, cfg.AnswerTimeout = time.Second, 2*time.Second })
	if !errors.Is(err, buyer.ErrIncomplete) || p.Output != nil || len(c.sent) != 1 {
		t.Errorf("in the clear: %v, %s, sent %d", err, p.Reason, len(c.sent))
	}
}
