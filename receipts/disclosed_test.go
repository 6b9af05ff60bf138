package receipts_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// encryptedSale is a dispute about an encrypted job: the buyer shows the tags that
// its request hides, and the quote. hide may put other tags in their place.
func encryptedSale(t *testing.T, r recipe, change func(*receipts.Dispute)) *receipts.Dispute {
	t.Helper()
	var tags, quote []byte
	r.request = func(ev *receipts.Event) {
		var inside, outside [][]string
		for _, tag := range ev.Tags {
			if tag[0] == "p" || tag[0] == domain.TagName {
				outside = append(outside, tag)
			} else {
				inside = append(inside, tag)
			}
		}
		tags = must(json.Marshal(inside))
		ev.Tags, ev.Content = append(outside, []string{"encrypted"}), "ciphertext"
	}
	r.finished = func(b *receipts.Bundle) { quote = b.Quote }
	d := disputedSale(t, r, nil)
	d.QuoteEvent, d.RequestTags, d.Quote = nil, tags, quote
	if change != nil {
		change(d)
	}
	return d
}

func TestRulingsOnEncryptedJobs(t *testing.T) {
	for name, tt := range map[string]struct {
		recipe  recipe
		change  func(*receipts.Dispute)
		verdict receipts.Verdict
		exit    int
	}{
		"delivered":  {recipe{}, nil, receipts.VerdictDelivered, receipts.ExitFailed},
		"no answer":  {recipe{output: func(out map[string]any) { out["status"] = "error" }}, nil, receipts.VerdictNoAnswer, receipts.ExitProved},
		"not wanted": {recipe{document: expectSeven}, nil, receipts.VerdictNoAnswer, receipts.ExitProved},
		"false box": {recipe{resultEvent: func(ev *receipts.Event) {
			ev.Tags = append(ev.Tags, []string{"commitment", hashing.Bytes(nil).String()})
		}}, nil, receipts.VerdictFalseBox, receipts.ExitProved},
		"another job is disclosed": {recipe{}, func(d *receipts.Dispute) {
			d.RequestTags = []byte(strings.Replace(string(d.RequestTags), "make check", "make clean", 1))
		}, receipts.VerdictOpen, receipts.ExitNotProvable},
		"another quote is disclosed": {recipe{}, func(d *receipts.Dispute) {
			d.Quote = []byte(strings.Replace(string(d.Quote), "21000", "20999", 1))
		}, receipts.VerdictOpen, receipts.ExitNotProvable},
		"nothing came":       {recipe{}, func(d *receipts.Dispute) { d.Result = nil }, receipts.VerdictNoResult, receipts.ExitNotProvable},
		"tags that are none": {recipe{}, func(d *receipts.Dispute) { d.RequestTags = []byte("{}") }, receipts.VerdictOpen, receipts.ExitNotProvable},
		"too many tags": {recipe{}, func(d *receipts.Dispute) {
			d.RequestTags = []byte("[" + strings.Repeat(`["x"],`, 600) + `["x"]]`)
		}, receipts.VerdictOpen, receipts.ExitNotProvable},
	} {
		t.Run(name, func(t *testing.T) {
			d := encryptedSale(t, tt.recipe, tt.change)
			files := fstest.MapFS{}
			for file, data := range d.Files() {
				files[file] = &fstest.MapFile{Data: data}
			}
			read, err := receipts.ReadDispute(files, receipts.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			if r := read.Rule(pins()); r.Verdict != tt.verdict || r.ExitCode() != tt.exit || r.Reason == "" {
				t.Errorf("%+v", r)
			}
		})
	}
	// A request in the clear is what it says: nothing is disclosed beside it.
	d := disputed(t, nil)
	d.QuoteEvent, d.RequestTags, d.Quote = nil, []byte("[]"), recipe{seal: true, mode: receipts.ModePostpay}.make().bundle.Quote
	if r := d.Rule(pins()); r.Verdict != receipts.VerdictOpen {
		t.Errorf("%+v", r)
	}
}

// feeOf adds to a dispute what shows the engagement fee of its job.
func feeOf(t *testing.T, d *receipts.Dispute) {
	t.Helper()
	m := recipe{fee: true}.make()
	d.FeeQuoteEvent, d.FeeReceipt = m.bundle.QuoteEvent, m.bundle.ReceiptEvent
	d.FeeInvoice, d.FeePreimage = []byte(m.bolt11+"\n"), []byte(preimage().String()+"\n")
}

func TestRulingNamesTheEngagementFee(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*receipts.Dispute)
		want   int64
	}{
		"paid":             {func(*receipts.Dispute) {}, price},
		"without receipt":  {func(d *receipts.Dispute) { d.FeeReceipt = nil }, price},
		"another's secret": {func(d *receipts.Dispute) { d.FeePreimage = []byte(strings.Repeat("01", 32)) }, 0},
		"no secret":        {func(d *receipts.Dispute) { d.FeePreimage = nil }, 0},
		"a result's quote": {func(d *receipts.Dispute) { d.FeeQuoteEvent = d.QuoteEvent }, 0},
		"a demand that no receipt of a fee is proved with": {func(d *receipts.Dispute) {
			d.FeeQuoteEvent = recipe{fee: true, signQuote: person("provider"), quoteEvent: func(ev *receipts.Event) {
				ev.Tags = [][]string{domain.Quote.Tag()}
			}}.make().bundle.QuoteEvent
		}, 0},
		"a result's receipt": {func(d *receipts.Dispute) {
			d.FeeReceipt = recipe{}.make().bundle.ReceiptEvent
		}, 0},
	} {
		d := disputed(t, nil)
		feeOf(t, d)
		tt.change(d)
		if r := d.Rule(pins()); r.EngagementMsats != tt.want || tt.want > 0 && r.Verdict != receipts.VerdictDelivered {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// A fee alone: that no attempt was made is shown by nobody.
	d := disputed(t, nil)
	feeOf(t, d)
	alone := &receipts.Dispute{Request: d.Request, QuoteEvent: d.FeeQuoteEvent, Invoice: d.FeeInvoice, Preimage: d.FeePreimage}
	if r := alone.Rule(pins()); r.Verdict != receipts.VerdictNoResult || r.ExitCode() != receipts.ExitNotProvable {
		t.Errorf("%+v", r)
	}
}
