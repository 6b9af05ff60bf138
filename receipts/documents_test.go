package receipts_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestQuoteRoundTrip(t *testing.T) {
	q := recipe{}.make().quote
	doc := must(q.Canonical())
	again := must(receipts.ParseQuote(doc))
	if string(must(again.Canonical())) != string(doc) {
		t.Error("a parsed quote encodes otherwise")
	}
	if must(q.Hash()) != hashing.Bytes(doc) {
		t.Error("quote_hash is not the hash of the canonical bytes")
	}
	if q.Expiry().Unix() != expires {
		t.Errorf("expiry %v", q.Expiry())
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(doc, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields("version request_id job_hash schema_id buyer provider price_msats purpose expires_at mode delivery cancellation policy_bundle_id nonce inputs payment_hash payee_node") {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %s", name)
		}
		delete(fields, name)
	}
	if len(fields) != 0 {
		t.Errorf("other fields: %v", fields)
	}
}

func TestQuoteRefuses(t *testing.T) {
	for name, change := range map[string]func(*receipts.Quote){
		"version":             func(q *receipts.Quote) { q.Version = 2 },
		"request id":          func(q *receipts.Quote) { q.RequestID = "abc" },
		"job hash":            func(q *receipts.Quote) { q.JobHash = hashing.Digest{} },
		"schema":              func(q *receipts.Quote) { q.SchemaID = "sandbox" },
		"buyer":               func(q *receipts.Quote) { q.Buyer = strings.Repeat("f", 64) },
		"provider":            func(q *receipts.Quote) { q.Provider = "" },
		"negative price":      func(q *receipts.Quote) { q.PriceMsats = -1 },
		"no price":            func(q *receipts.Quote) { q.PriceMsats = 0 },
		"price over 2^53-1":   func(q *receipts.Quote) { q.PriceMsats = 1 << 53 },
		"purpose":             func(q *receipts.Quote) { q.Purpose = "tip" },
		"offset time":         func(q *receipts.Quote) { q.ExpiresAt = "2026-01-01T01:00:00+01:00" },
		"fractional time":     func(q *receipts.Quote) { q.ExpiresAt = "2026-01-01T00:00:00.5Z" },
		"31st of February":    func(q *receipts.Quote) { q.ExpiresAt = "2026-02-31T00:00:00Z" },
		"mode":                func(q *receipts.Quote) { q.Mode = "later" },
		"free with price":     func(q *receipts.Quote) { q.Mode = receipts.ModeFree },
		"delivery":            func(q *receipts.Quote) { q.Delivery = "pigeon" },
		"sealed prepay":       func(q *receipts.Quote) { q.Mode, q.Delivery = receipts.ModePrepay, receipts.DeliverySealed },
		"cancellation":        func(q *receipts.Quote) { q.Cancellation = "Never!" },
		"policy":              func(q *receipts.Quote) { q.PolicyBundleID = hashing.Digest{} },
		"nonce":               func(q *receipts.Quote) { q.Nonce = "00" },
		"zero payment hash":   func(q *receipts.Quote) { h := strings.Repeat("0", 64); q.PaymentHash = &h },
		"payee x-only":        func(q *receipts.Quote) { n := q.Provider; q.PayeeNode = &n },
		"payee off the curve": func(q *receipts.Quote) { n := "02" + strings.Repeat("f", 64); q.PayeeNode = &n },
	} {
		q := recipe{}.make().quote
		change(&q)
		if _, err := q.Canonical(); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFreeQuote(t *testing.T) {
	q := recipe{}.make().quote
	q.Mode, q.PriceMsats, q.PaymentHash, q.PayeeNode = receipts.ModeFree, 0, nil, nil
	if _, err := receipts.ParseQuote(must(q.Canonical())); err != nil {
		t.Error(err)
	}
}

// Every document is read in its canonical form only, field by field.
func TestDocumentsAreStrict(t *testing.T) {
	m := recipe{}.make()
	parsers := map[string]struct {
		doc   []byte
		parse func([]byte) error
	}{
		"quote":      {m.bundle.Quote, func(b []byte) error { _, err := receipts.ParseQuote(b); return err }},
		"receipt":    {m.bundle.Receipt, func(b []byte) error { _, err := receipts.ParseReceipt(b); return err }},
		"acceptance": {[]byte(m.accept.Content), func(b []byte) error { _, err := receipts.ParseAcceptance(b); return err }},
		"policy":     {m.bundle.Policy, func(b []byte) error { _, err := receipts.ParsePolicy(b); return err }},
	}
	for name, p := range parsers {
		if err := p.parse(p.doc); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		text := string(p.doc)
		for what, doc := range map[string]string{
			"empty":         "",
			"null":          "null",
			"object":        "{}",
			"white space":   text + "\n",
			"unknown field": `{"a":1,` + text[1:],
			"duplicate key": strings.Replace(text, `"version":1`, `"version":1,"version":1`, 1),
			"name case":     strings.Replace(text, `"version"`, `"Version"`, 1),
			"null version":  strings.Replace(text, `"version":1`, `"version":null`, 1),
			"float version": strings.Replace(text, `"version":1`, `"version":1.0`, 1),
			"version 2":     strings.Replace(text, `"version":1`, `"version":2`, 1),
			"escaped":       strings.Replace(text, `"version"`, `"\u0076ersion"`, 1),
			"oversize":      text + strings.Repeat(" ", 64<<10),
		} {
			if err := p.parse([]byte(doc)); !errors.Is(err, receipts.ErrInvalid) {
				t.Errorf("%s, %s: %v", name, what, err)
			}
		}
	}
}

// What is wrong with a document is told with its place, also where the field that is
// missing may be null.
func TestDocumentsSayWhatIsMissing(t *testing.T) {
	m := recipe{}.make()
	rule := `"approval_rule_id":"auto_below_50_sats"`
	for _, c := range []struct{ doc, from, to, want string }{
		{m.accept.Content, rule + ",", "", "acceptance is not in canonical form: approval_rule_id is missing"},
		{m.accept.Content, `"auto_below`, `"\u0061uto_below`, "acceptance is not in canonical form: see approval_rule_id"},
		{m.accept.Content, "{", "{ ", "acceptance is not in canonical form"},
		{m.accept.Content, rule, `"approval_rule":"x"`, "approval_rule"},
	} {
		doc := strings.Replace(c.doc, c.from, c.to, 1)
		if doc == c.doc {
			t.Fatalf("no %s in %s", c.from, c.doc)
		}
		if _, err := receipts.ParseAcceptance([]byte(doc)); !errors.Is(err, receipts.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", doc, err, c.want)
		}
	}
	quote := strings.Replace(string(m.bundle.Quote), `"inputs":[],`, "", 1)
	if _, err := receipts.ParseQuote([]byte(quote)); err == nil || !strings.Contains(err.Error(), "inputs") {
		t.Errorf("%v", err)
	}
	receipt := strings.Replace(string(m.bundle.Receipt), `"agreement_hash":"`+m.receipt.AgreementHash.String()+`",`, "", 1)
	if _, err := receipts.ParseReceipt([]byte(receipt)); err == nil || !strings.Contains(err.Error(), "agreement_hash is missing") {
		t.Errorf("%v", err)
	}
}

func TestAcceptanceRefuses(t *testing.T) {
	m := recipe{}.make()
	for name, change := range map[string]func(*receipts.Acceptance){
		"version":           func(a *receipts.Acceptance) { a.Version = 2 },
		"request":           func(a *receipts.Acceptance) { a.RequestID = "" },
		"quote":             func(a *receipts.Acceptance) { a.QuoteHash = hashing.Digest{} },
		"payment hash":      func(a *receipts.Acceptance) { a.PaymentHash = "" },
		"zero payment hash": func(a *receipts.Acceptance) { a.PaymentHash = strings.Repeat("0", 64) },
		"no price":          func(a *receipts.Acceptance) { a.PriceMsats = 0 },
		"price over 2^53-1": func(a *receipts.Acceptance) { a.PriceMsats = 1 << 53 },
		"empty rule":        func(a *receipts.Acceptance) { a.ApprovalRuleID = new(string) },
	} {
		a := must(receipts.ParseAcceptance([]byte(m.accept.Content)))
		change(&a)
		if _, err := a.Canonical(); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReceiptFields(t *testing.T) {
	requirements.Covers(t, "OA-4.1")
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(recipe{}.make().bundle.Receipt, &fields); err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(`receipt_id session_id trajectory_hash policy_bundle_id job_hash payment_proof rail asset_id amount_msats provider_id approval_rule_id timestamp`) {
		if _, ok := fields[name]; !ok {
			t.Errorf("no field %s", name)
		}
	}
	var proof map[string]string
	if err := json.Unmarshal(fields["payment_proof"], &proof); err != nil || len(proof) != 2 || proof["type"] == "" || proof["value"] == "" {
		t.Errorf("payment_proof is %s", fields["payment_proof"])
	}
	if !strings.HasPrefix(string(fields["provider_id"]), `"npub1`) {
		t.Errorf("provider_id is %s", fields["provider_id"])
	}
	none := recipe{noAcceptance: true}.make()
	if !strings.Contains(string(none.bundle.Receipt), `"approval_rule_id":null`) {
		t.Error("approval_rule_id is not null without an acceptance")
	}
}

func TestReceiptRefuses(t *testing.T) {
	other := strings.Repeat("0", 64)
	for name, change := range map[string]func(*receipts.Receipt){
		"version":               func(r *receipts.Receipt) { r.Version = 0 },
		"made-up id":            func(r *receipts.Receipt) { r.ReceiptID = "rcpt_" + other[:32] },
		"empty session":         func(r *receipts.Receipt) { r.SessionID = "" },
		"session with escape":   func(r *receipts.Receipt) { r.SessionID = "a\x1b[2J" },
		"trajectory":            func(r *receipts.Receipt) { r.TrajectoryHash = hashing.Digest{} },
		"plan":                  func(r *receipts.Receipt) { r.PlanHash = hashing.Digest{} },
		"redacted":              func(r *receipts.Receipt) { r.RedactedTrajectoryHash = hashing.Digest{} },
		"proof value":           func(r *receipts.Receipt) { r.PaymentProof.Value = "" },
		"no amount":             func(r *receipts.Receipt) { r.AmountMsats = 0 },
		"amount over 2^53-1":    func(r *receipts.Receipt) { r.AmountMsats = 1 << 53 },
		"provider in hex":       func(r *receipts.Receipt) { r.ProviderID = xOnly(person("provider")) },
		"buyer in hex":          func(r *receipts.Receipt) { r.BuyerID = xOnly(person("buyer")) },
		"empty rule":            func(r *receipts.Receipt) { r.ApprovalRuleID = new(string) },
		"time":                  func(r *receipts.Receipt) { r.Timestamp = "yesterday" },
		"schema":                func(r *receipts.Receipt) { r.SchemaID = "oa.sandbox_run" },
		"free":                  func(r *receipts.Receipt) { r.Mode = receipts.ModeFree },
		"delivery":              func(r *receipts.Receipt) { r.Delivery = "" },
		"request id":            func(r *receipts.Receipt) { r.RequestEventID = "" },
		"result id":             func(r *receipts.Receipt) { r.ResultEventID = "" },
		"acceptance id":         func(r *receipts.Receipt) { r.AcceptanceEventID = new(string) },
		"no invoice":            func(r *receipts.Receipt) { r.BOLT11 = "" },
		"huge invoice":          func(r *receipts.Receipt) { r.BOLT11 = strings.Repeat("l", 8000) },
		"payment hash":          func(r *receipts.Receipt) { r.PaymentHash = other },
		"payee":                 func(r *receipts.Receipt) { r.PayeeNode = "02" + other },
		"sequence 0":            func(r *receipts.Receipt) { r.Sequence = 0 },
		"first with previous":   func(r *receipts.Receipt) { r.Sequence = 1 },
		"second with none":      func(r *receipts.Receipt) { r.PreviousReceiptHash = nil },
		"quote of another hash": func(r *receipts.Receipt) { r.QuoteHash = hashing.Bytes(nil) },
	} {
		r := recipe{}.make().receipt
		change(&r)
		if _, err := r.Canonical(); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProofRailAndAsset(t *testing.T) {
	requirements.Covers(t, "OA-4.2")
	check := func(what string, change func(*receipts.Receipt), ok bool) {
		t.Helper()
		r := recipe{}.make().receipt
		change(&r)
		if _, err := r.Canonical(); (err == nil) != ok {
			t.Errorf("%s: %v", what, err)
		}
	}
	for value, ok := range map[string]bool{"lightning_preimage": true, "cashu_proof": true, "onchain_txid": true, "iou": false, "": false} {
		check("proof "+value, func(r *receipts.Receipt) { r.PaymentProof.Type = value }, ok)
	}
	for value, ok := range map[string]bool{"lightning": true, "cashu": true, "onchain": true, "taproot_assets": true, "Lightning": false, "": false} {
		check("rail "+value, func(r *receipts.Receipt) { r.Rail = payments.Rail(value) }, ok)
	}
	for value, ok := range map[string]bool{
		"BTC_LN": true, "BTC_LN(simnet)": true, "PLAY_LN": true, "BTC_CASHU(https://mint.example:3338/x)": true, "USD_CASHU(mint)": true,
		"USD": false, "": false, "BTC_": false, "_LN": false, "btc_ln": false, "BTC_LN()": false, "BTC_LN(a b)": false, "BTC_LN(a": false, "BTC_LN(a)b": false,
		"USD(BTC_LN)": false, "BTC_LN((a))": false,
	} {
		check("asset "+value, func(r *receipts.Receipt) { r.AssetID = value }, ok)
	}
}

func TestReceiptID(t *testing.T) {
	a := receipts.NewReceiptID(hashing.Bytes([]byte("q")), payments.Hash{1})
	for _, b := range []string{
		receipts.NewReceiptID(hashing.Bytes([]byte("q")), payments.Hash{2}),
		receipts.NewReceiptID(hashing.Bytes([]byte("r")), payments.Hash{1}),
	} {
		if a == b || len(a) != len("rcpt_")+32 {
			t.Errorf("%s and %s", a, b)
		}
	}
	// Computed apart: sha256("lightwork/receipt/v1" || 0x00*32 || 0x00*32).
	if got := receipts.NewReceiptID(hashing.Digest{}, payments.Hash{}); got != "rcpt_575b2ce9dfe89dfb29e51951688329ad" {
		t.Errorf("id %s", got)
	}
}
