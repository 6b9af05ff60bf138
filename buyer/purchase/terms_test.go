package purchase_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// requested is a purchase of a text generation whose request has these further tags.
func requested(t *testing.T, more ...nostr.Tag) purchase.Purchase {
	t.Helper()
	tags := nostr.Tags{
		domain.Request.Tag(),
		{"i", "say hello", "text"},
		{"bid", "5000"},
		{"expiration", "1000"},
		{"param", "payment_mode", "hold"},
		{"param", "delivery", "sealed"},
	}
	raw, err := json.Marshal(nostr.Event{Kind: 5050, Tags: append(tags, more...)})
	if err != nil {
		t.Fatal(err)
	}
	return purchase.Purchase{SchemaID: string(schemas.TextGeneration), Request: raw, MaxMsats: 4000}
}

// TestTermsOfARequest: what we asked for is read out of the request that we signed.
func TestTermsOfARequest(t *testing.T) {
	terms := purchase.TermsOf(requested(t, nostr.Tag{"param", "refund", "buyer@example.com"}))
	if terms.Mode != receipts.ModeHold || !terms.QuotesFirst() || !terms.Sealed() || terms.Refund != "buyer@example.com" {
		t.Errorf("%+v", terms)
	}
	if terms.BidMsats != 4000 {
		t.Errorf("the bid is %d: it is never more than the purchase's own maximum", terms.BidMsats)
	}
	if !terms.Expired(time.Unix(1000, 0)) || terms.Expired(time.Unix(999, 0)) {
		t.Errorf("it expires at %v", terms.Expiry)
	}
	if _, req, err := terms.Job(); err != nil || req.SchemaID != schemas.TextGeneration || terms.RunLimit != receipts.RunLimit(req) {
		t.Errorf("the job is %v, %v", req, err)
	}
}

// TestTermsThatAreEncrypted: the encrypted tags count as if they stood in the clear.
func TestTermsThatAreEncrypted(t *testing.T) {
	p := requested(t)
	var ev nostr.Event
	if err := json.Unmarshal(p.Request, &ev); err != nil {
		t.Fatal(err)
	}
	open := purchase.TermsOf(p)

	var err error
	if p.Hidden, err = json.Marshal(ev.Tags); err != nil {
		t.Fatal(err)
	}
	if p.Request, err = json.Marshal(nostr.Event{Kind: 5050, Content: "encrypted"}); err != nil {
		t.Fatal(err)
	}
	hidden := purchase.TermsOf(p)
	if hidden.BidMsats != open.BidMsats || hidden.Mode != open.Mode || hidden.Delivery != open.Delivery {
		t.Errorf("in the clear %+v, encrypted %+v", open, hidden)
	}
	if _, _, err := hidden.Job(); err != nil {
		t.Error(err)
	}
}

// TestTermsThatCannotBeRead: a purchase whose request is broken bids nothing, and says
// why there is no job; it never stops whoever asks what became of a payment.
func TestTermsThatCannotBeRead(t *testing.T) {
	for name, p := range map[string]purchase.Purchase{
		"no request":      {},
		"no JSON":         {Request: []byte("{")},
		"no hidden tags":  {Request: []byte("{}"), Hidden: []byte("{")},
		"unknown job":     {Request: requested(t).Request, SchemaID: "none"},
		"no inputs":       {Request: requested(t).Request, SchemaID: string(schemas.TextGeneration), Inputs: []byte("{")},
		"two bids":        {Request: requested(t, nostr.Tag{"bid", "1"}).Request, MaxMsats: 4000, SchemaID: "none"},
		"no bid, unknown": {Request: []byte(`{"tags":[]}`), SchemaID: "none"},
	} {
		terms := purchase.TermsOf(p)
		if _, _, err := terms.Job(); err == nil {
			t.Errorf("%s: there is a job", name)
		}
		if len(terms.InputIDs) != 0 || terms.InputIDs == nil || terms.RunLimit != 0 || terms.Expects() || terms.BidMsats != 0 {
			t.Errorf("%s: %+v", name, terms)
		}
	}
}
