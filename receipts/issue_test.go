package receipts_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/receipts"
)

// From a receipt the payment, the job, the trajectory and the policy are
// reached, and all check.
func TestNewReceiptVerifies(t *testing.T) {
	requirements.Covers(t, "OA-4.7")
	for _, mode := range []receipts.Mode{receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay} {
		m := recipe{mode: mode}.make()
		r, err := receipts.New(m.evidence)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m.receipt, r); diff != "" {
			t.Errorf("%s: receipt differs: %s", mode, diff)
		}
		ev := must(receipts.ReceiptEvent(r, settled))
		sign(&ev, person("provider"))
		m.bundle.Receipt, m.bundle.ReceiptEvent = must(r.Canonical()), ev.JSON()
		report := receipts.Verify(m.bundle, pins())
		wantStates(t, report, nil)
	}
}

func TestNewRefusesContradictions(t *testing.T) {
	quoteHash := func(m made) hashing.Digest { return must(m.quote.Hash()) }
	for name, test := range map[string]struct {
		recipe recipe
		change func(m made, e *receipts.Evidence)
		want   error
	}{
		"another preimage":   {recipe{}, func(_ made, e *receipts.Evidence) { e.Preimage = payments.Preimage{9} }, receipts.ErrMismatch},
		"no preimage":        {recipe{}, func(_ made, e *receipts.Evidence) { e.Preimage = payments.Preimage{} }, receipts.ErrMismatch},
		"no invoice":         {recipe{}, func(_ made, e *receipts.Evidence) { e.Invoice = "" }, bolt11.ErrBech32},
		"another quote":      {recipe{}, func(_ made, e *receipts.Evidence) { e.Quote.Nonce = strings.Repeat("0", 32) }, receipts.ErrMismatch},
		"result of another":  {recipe{}, func(m made, e *receipts.Evidence) { e.Result.QuoteHash[0]++ }, receipts.ErrMismatch},
		"result of a job":    {recipe{}, func(m made, e *receipts.Evidence) { e.Result.JobHash = quoteHash(m) }, receipts.ErrMismatch},
		"result of a schema": {recipe{}, func(m made, e *receipts.Evidence) { e.Result.SchemaID = "oa.embedding.v1" }, receipts.ErrMismatch},
		"another policy":     {recipe{}, func(m made, e *receipts.Evidence) { e.Result.PolicyBundleID = quoteHash(m) }, receipts.ErrMismatch},
		"no result id":       {recipe{}, func(_ made, e *receipts.Evidence) { e.ResultEventID = "" }, receipts.ErrInvalid},
		"late acceptance":    {recipe{}, func(_ made, e *receipts.Evidence) { e.SettledAt = time.Unix(accepted-1, 0) }, receipts.ErrMismatch},
		"stranger accepts":   {recipe{signAcceptance: person("stranger")}, func(made, *receipts.Evidence) {}, receipts.ErrMismatch},
		"chain broken":       {recipe{}, func(_ made, e *receipts.Evidence) { e.Previous = nil }, receipts.ErrInvalid},
		"invoice amount":     {recipe{invoice: func(i *bolt11.Invoice) { i.AmountMsats-- }}, func(made, *receipts.Evidence) {}, receipts.ErrMismatch},
		"free":               {recipe{}, func(_ made, e *receipts.Evidence) { freeQuote(&e.Quote) }, receipts.ErrInvalid},
	} {
		m := test.recipe.make()
		test.change(m, &m.evidence)
		if _, err := receipts.New(m.evidence); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
	}
}

func freeQuote(q *receipts.Quote) {
	q.Mode, q.PriceMsats, q.PaymentHash, q.PayeeNode = receipts.ModeFree, 0, nil, nil
}

// B8: an invoice whose amount, hash, node or quote differs is not paid.
func TestCheckInvoice(t *testing.T) {
	honest := recipe{}.make()
	inv, err := receipts.CheckInvoice(honest.quote, honest.bolt11, payments.Play)
	if err != nil || inv.AmountMsats != price || inv.Payee != compressed(person("node")) {
		t.Fatalf("%+v, %v", inv, err)
	}
	for name, test := range map[string]struct {
		invoice func(*bolt11.Invoice)
		node    string
		network payments.Network
		field   string
	}{
		"more":           {func(i *bolt11.Invoice) { i.AmountMsats++ }, "node", payments.Play, "amount"},
		"less":           {func(i *bolt11.Invoice) { i.AmountMsats-- }, "node", payments.Play, "amount"},
		"any amount":     {func(i *bolt11.Invoice) { i.AmountMsats = 0 }, "node", payments.Play, "amount"},
		"another hash":   {func(i *bolt11.Invoice) { i.PaymentHash = otherHash() }, "node", payments.Play, "payment_hash"},
		"another quote":  {func(i *bolt11.Invoice) { d := hashing.Bytes(nil); i.DescriptionHash = &d }, "node", payments.Play, "description_hash"},
		"no quote":       {func(i *bolt11.Invoice) { i.DescriptionHash = nil }, "node", payments.Play, "description_hash"},
		"another node":   {func(*bolt11.Invoice) {}, "stranger", payments.Play, "payee_node"},
		"another wallet": {func(*bolt11.Invoice) {}, "node", payments.Mainnet, "network"},
	} {
		invoice := *must(bolt11.Decode(honest.bolt11))
		invoice.Payee = ""
		test.invoice(&invoice)
		text := must(bolt11.Encode(&invoice, signInvoice(person(test.node))))
		_, err := receipts.CheckInvoice(honest.quote, text, test.network)
		var mismatch *receipts.MismatchError
		if !errors.As(err, &mismatch) || mismatch.Field != test.field {
			t.Errorf("%s: %v, want a mismatch of %s", name, err, test.field)
		}
	}
	free := honest.quote
	freeQuote(&free)
	if _, err := receipts.CheckInvoice(free, honest.bolt11, payments.Play); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("invoice of a free quote: %v", err)
	}
	if _, err := receipts.CheckInvoice(honest.quote, "lnbc1", payments.Play); err == nil {
		t.Error("garbage is taken for an invoice")
	}
}

// A quote of a wallet that chooses the preimage names neither hash nor node.
func TestCheckInvoiceOfAVagueQuote(t *testing.T) {
	m := recipe{mode: receipts.ModePrepay, quote: func(q *receipts.Quote) { q.PaymentHash, q.PayeeNode = nil, nil }}.make()
	if _, err := receipts.CheckInvoice(m.quote, m.bolt11, payments.Play); err != nil {
		t.Error(err)
	}
}

func TestQuoteMatches(t *testing.T) {
	q := recipe{}.make().quote
	terms := receipts.Terms{
		RequestID: q.RequestID, JobHash: q.JobHash, SchemaID: q.SchemaID, Buyer: q.Buyer, Provider: q.Provider, MaxMsats: price,
	}
	if err := q.Matches(terms); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*receipts.Terms){
		"request_id":  func(t *receipts.Terms) { t.RequestID = strings.Repeat("0", 64) },
		"job_hash":    func(t *receipts.Terms) { t.JobHash[0]++ },
		"schema_id":   func(t *receipts.Terms) { t.SchemaID = "oa.embedding.v1" },
		"buyer":       func(t *receipts.Terms) { t.Buyer = t.Provider },
		"provider":    func(t *receipts.Terms) { t.Provider = t.Buyer },
		"price_msats": func(t *receipts.Terms) { t.MaxMsats-- },
	} {
		other := terms
		change(&other)
		var mismatch *receipts.MismatchError
		if err := q.Matches(other); !errors.As(err, &mismatch) || mismatch.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestCheckAcceptance(t *testing.T) {
	m := recipe{}.make()
	hash := preimage().Hash()
	a, err := receipts.CheckAcceptance(*m.accept, m.quote, hash)
	if err != nil || a.ApprovalRuleID == nil || a.PriceMsats != price {
		t.Fatalf("%+v, %v", a, err)
	}
	if must(a.Hash()) != hashing.Bytes([]byte(m.accept.Content)) {
		t.Error("hash of the acceptance is not that of its bytes")
	}
	for name, r := range map[string]recipe{
		"stranger":      {signAcceptance: person("stranger")},
		"price":         {acceptance: func(a *receipts.Acceptance) { a.PriceMsats-- }},
		"quote":         {acceptance: func(a *receipts.Acceptance) { a.QuoteHash[0]++ }},
		"request":       {acceptance: func(a *receipts.Acceptance) { a.RequestID = strings.Repeat("0", 64) }},
		"hash":          {acceptance: func(a *receipts.Acceptance) { a.PaymentHash = otherHash().String() }},
		"other p":       {acceptEvent: func(ev *receipts.Event) { setTag(ev, "p", xOnly(person("stranger"))) }},
		"second e":      {acceptEvent: func(ev *receipts.Event) { ev.Tags = append(ev.Tags, ev.Tags[0]) }},
		"no tags":       {acceptEvent: func(ev *receipts.Event) { ev.Tags = [][]string{domain.Acceptance.Tag()} }},
		"other content": {acceptEvent: func(ev *receipts.Event) { ev.Content = strings.Replace(ev.Content, "21000", "21001", 1) }},
	} {
		if _, err := receipts.CheckAcceptance(*r.make().accept, m.quote, hash); !errors.Is(err, receipts.ErrMismatch) {
			t.Errorf("%s: %v", name, err)
		}
	}
	undeclared := recipe{acceptEvent: func(ev *receipts.Event) { ev.Tags = ev.Tags[:2] }}.make().accept
	if _, err := receipts.CheckAcceptance(*undeclared, m.quote, hash); !errors.Is(err, receipts.ErrInvalid) || !errors.Is(err, domain.Error) {
		t.Errorf("without its domain: %v", err)
	}
	garbage := *m.accept
	garbage.Content = "yes"
	sign(&garbage, person("buyer"))
	unsigned := *m.accept
	unsigned.Sig = strings.Repeat("0", 128)
	for name, ev := range map[string]receipts.Event{"garbage": garbage, "unsigned": unsigned} {
		if _, err := receipts.CheckAcceptance(ev, m.quote, hash); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestResultIsBound(t *testing.T) {
	m := recipe{}.make()
	check := func(ev receipts.Event, kind int, terms receipts.ResultTerms) error {
		return receipts.BoundBy(ev, xOnly(person("provider")), xOnly(person("buyer")), m.request.ID, kind, terms)
	}
	for _, kind := range []int{0, 5050} {
		if err := check(m.result, kind, m.terms); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(m.result, 5051, m.terms); !errors.Is(err, receipts.ErrMismatch) {
		t.Errorf("kind of another request: %v", err)
	}
	vague := m.terms
	vague.AgreementHash = nil
	if err := check(m.result, 5050, vague); !errors.Is(err, receipts.ErrMismatch) {
		t.Errorf("an agreement hash that nobody named: %v", err)
	}
	for _, tag := range m.terms.Tags() {
		for what, change := range map[string]func([][]string, int) [][]string{
			"absent": func(tags [][]string, i int) [][]string { return slices.Delete(tags, i, i+1) },
			"twice":  func(tags [][]string, i int) [][]string { return append(tags, tags[i]) },
			"empty":  func(tags [][]string, i int) [][]string { tags[i] = tags[i][:1]; return tags },
		} {
			ev := m.result
			i := slices.IndexFunc(ev.Tags, func(t []string) bool { return t[0] == tag[0] })
			ev.Tags = change(slices.Clone(ev.Tags), i)
			sign(&ev, person("provider"))
			if err := check(ev, 5050, m.terms); !errors.Is(err, receipts.ErrMismatch) {
				t.Errorf("tag %s %s: %v", tag[0], what, err)
			}
		}
	}
	stranger := m.result
	sign(&stranger, person("stranger"))
	if err := check(stranger, 5050, m.terms); !errors.Is(err, receipts.ErrMismatch) {
		t.Errorf("a stranger's result: %v", err)
	}
	outside := m.result
	outside.Kind = 7000
	sign(&outside, person("provider"))
	if err := check(outside, 0, m.terms); !errors.Is(err, receipts.ErrMismatch) {
		t.Errorf("kind 7000 as a result: %v", err)
	}
}

func TestParseReceiptEvent(t *testing.T) {
	m := recipe{}.make()
	ev := must(receipts.ParseEvent(m.bundle.ReceiptEvent, 1<<20))
	r, err := receipts.ParseReceiptEvent(ev)
	if err != nil || r.ReceiptID != m.receipt.ReceiptID {
		t.Fatalf("%s, %v", r.ReceiptID, err)
	}
	stranger := ev
	sign(&stranger, person("stranger"))
	other := ev
	other.Content = "{}"
	sign(&other, person("provider"))
	for name, test := range map[string]struct {
		ev   receipts.Event
		want error
	}{"stranger": {stranger, receipts.ErrMismatch}, "no receipt": {other, receipts.ErrInvalid}, "zero": {receipts.Event{}, receipts.ErrInvalid}} {
		if _, err := receipts.ParseReceiptEvent(test.ev); !errors.Is(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRequestOf(t *testing.T) {
	type tag []string // as Nostr libraries declare it
	input := tag{"i", "{}", "text"}
	for name, test := range map[string]struct {
		tags []tag
		ok   bool
	}{
		"schema":           {[]tag{{"param", "schema", "oa.x.v1"}, input}, true},
		"schema_id":        {[]tag{input, {"param", "schema_id", "oa.x.v1"}}, true},
		"job_type":         {[]tag{{"param", "job_type", "oa.x.v1"}, input}, true},
		"all agree":        {[]tag{{"param", "schema", "oa.x.v1"}, {"param", "job_type", "oa.x.v1"}, input}, true},
		"they disagree":    {[]tag{{"param", "schema", "oa.x.v1"}, {"param", "job_type", "oa.y.v1"}, input}, false},
		"no schema":        {[]tag{input}, false},
		"empty schema":     {[]tag{{"param", "schema", ""}, input}, false},
		"one is empty":     {[]tag{{"param", "schema", ""}, {"param", "job_type", "oa.x.v1"}, {"param", "schema_id", ""}, input}, true},
		"short param":      {[]tag{{"param", "schema"}, input}, false},
		"no input":         {[]tag{{"param", "schema", "oa.x.v1"}}, false},
		"two inputs":       {[]tag{{"param", "schema", "oa.x.v1"}, input, input}, false},
		"url input":        {[]tag{{"param", "schema", "oa.x.v1"}, {"i", "https://x", "url"}}, false},
		"input of no type": {[]tag{{"param", "schema", "oa.x.v1"}, {"i", "{}"}}, true},
		"of an empty type": {[]tag{{"param", "schema", "oa.x.v1"}, {"i", "{}", "", "wss://relay.example"}}, true},
		"a prompt":         {[]tag{{"param", "schema", "oa.x.v1"}, {"i", "{}", "prompt"}}, true},
		"two ways of text": {[]tag{{"param", "schema", "oa.x.v1"}, {"i", "{}"}, {"i", "{}", "prompt"}}, false},
		"unknown type":     {[]tag{{"param", "schema", "oa.x.v1"}, {"i", "{}", "Text"}}, false},
		"bare input":       {[]tag{{"param", "schema", "oa.x.v1"}, {"i"}}, false},
		"empty tag":        {[]tag{{}, {"param", "schema", "oa.x.v1"}, input}, true},
	} {
		got, err := receipts.RequestOf(test.tags)
		if (err == nil) != test.ok || test.ok && (got.SchemaID != "oa.x.v1" || string(got.Input) != "{}") {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
