package receipts_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// reads is a reader of a document that throws away what it read.
func reads[T any](parse func([]byte) (T, error)) func([]byte) error {
	return func(doc []byte) error {
		_, err := parse(doc)
		return err
	}
}

// Each JSON document is taken by its own reader and by no other's: what is bound by
// hash alone is not mistaken for something else.
func TestDocumentsAreToldApart(t *testing.T) {
	m, fee := recipe{seal: true}.make(), recipe{fee: true}.make()
	reveal := must(receipts.Reveal{
		Version: receipts.Version, RequestID: m.request.ID, AgreementHash: hashing.Bytes(nil), Nonce: strings.Repeat("0", 64),
	}.Canonical())
	closing := must(receipts.Closing{
		Version: receipts.Version, Results: []receipts.PanelResult{{Provider: xOnly(person("provider")), RequestID: m.request.ID, ResultID: m.result.ID}},
	}.Canonical())
	documents := map[string][]byte{
		"quote": m.bundle.Quote, "quote of a fee": fee.bundle.Quote, "acceptance": []byte(m.accept.Content), "receipt": m.bundle.Receipt,
		"receipt of a fee": fee.bundle.Receipt, "seal": m.bundle.Seal, "reveal": reveal, "closing": closing, "policy": m.bundle.Policy,
		"pointer": must(must(receipts.PointerTo(m.bundle.Receipt)).Canonical()), "request": []byte(requestDoc), "result": m.bundle.Result, "event": m.bundle.ReceiptEvent,
	}
	for reader, read := range map[string]func([]byte) error{
		"quote": reads(receipts.ParseQuote), "acceptance": reads(receipts.ParseAcceptance), "receipt": reads(receipts.ParseReceipt),
		"seal": reads(receipts.ParseSeal), "reveal": reads(receipts.ParseReveal), "closing": reads(receipts.ParseClosing), "policy": reads(receipts.ParsePolicy),
		"event": reads(func(doc []byte) (receipts.Event, error) { return receipts.ParseEvent(doc, len(doc)) }),
	} {
		for name, doc := range documents {
			own := name == reader || strings.HasPrefix(name, reader+" of ")
			if err := read(doc); (err == nil) != own || err != nil && !errors.Is(err, receipts.ErrInvalid) {
				t.Errorf("a %s read as a %s: %v", name, reader, err)
			}
		}
	}
}

// Each reader of a signed event takes the one document that it is for, however much
// another one looks like it.
func TestSignedEventsAreToldApart(t *testing.T) {
	m := recipe{}.make()
	hash := preimage().Hash()
	receipt := must(receipts.ParseEvent(m.bundle.ReceiptEvent, 1<<20))
	sale := recipe{seal: true, mode: receipts.ModePostpay}.make()
	quoteHash := hashing.Bytes(sale.bundle.Quote)
	sealed := sale.result
	sealed.Tags = append(sealed.Tags, []string{"blob", receipts.RoleSealed, hashing.Bytes(nil).String(), "0", "application/octet-stream"})
	for name, c := range map[string]struct {
		own  domain.Domain
		ev   receipts.Event
		key  string
		read func(receipts.Event) error
	}{
		"receipt": {domain.Receipt, receipt, "provider", func(ev receipts.Event) error {
			_, err := receipts.ParseReceiptEvent(ev)
			return err
		}},
		"acceptance": {domain.Acceptance, *m.accept, "buyer", func(ev receipts.Event) error {
			_, err := receipts.CheckAcceptance(ev, m.quote, hash)
			return err
		}},
		"pointer": {domain.Pointer, pointer(t, nil), "buyer", func(ev receipts.Event) error {
			_, err := receipts.ParsePointerEvent(ev)
			return err
		}},
		"sealed result": {domain.Result, sealed, "provider", func(ev receipts.Event) error {
			return receipts.CheckSealedEvent(ev.JSON(), xOnly(person("provider")), sale.request.ID, quoteHash)
		}},
	} {
		for _, d := range append(domain.All(), "") {
			ev := c.ev
			ev.Tags = nil
			for _, tag := range c.ev.Tags {
				if tag[0] != domain.TagName {
					ev.Tags = append(ev.Tags, tag)
				}
			}
			if d != "" {
				ev.Tags = append(ev.Tags, d.Tag())
			}
			sign(&ev, person(c.key))
			if err := c.read(ev); (err == nil) != (d == c.own) || err != nil && !errors.Is(err, domain.Error) {
				t.Errorf("%q read as a %s: %v", d, name, err)
			}
		}
	}
}

// A dispute rests on the provider's own quote: the same words in another document of
// its, such as a result that repeats what it was asked to, are none.
func TestDisputesWantAQuote(t *testing.T) {
	for _, d := range append(domain.All(), "") {
		dispute := disputed(t, nil)
		ev := must(receipts.ParseEvent(dispute.QuoteEvent, 1<<20))
		ev.Tags = ev.Tags[:len(ev.Tags)-1]
		if d != "" {
			ev.Tags = append(ev.Tags, d.Tag())
		}
		sign(&ev, person("provider"))
		dispute.QuoteEvent = ev.JSON()
		if r := dispute.Rule(pins()); (r.Verdict == receipts.VerdictDelivered) != (d == domain.Quote) {
			t.Errorf("%q as the quote: %s (%s)", d, r.Verdict, r.Reason)
		}
	}
}
