package receipts_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// disputed is a sealed sale as the buyer can show it, with good boxes.
func disputed(t *testing.T, change func(*receipts.Dispute, *receipts.Event)) *receipts.Dispute {
	return disputedSale(t, recipe{}, change)
}

func disputedSale(t *testing.T, r recipe, change func(*receipts.Dispute, *receipts.Event)) *receipts.Dispute {
	t.Helper()
	r.seal, r.mode = true, receipts.ModePostpay
	m := r.make()
	quote := receipts.Event{Kind: 7000, CreatedAt: quoted, Content: string(m.bundle.Quote), Tags: [][]string{{"status", "payment-required"}, {"e", m.request.ID}, domain.Quote.Tag()}}
	sign(&quote, person("provider"))
	d := &receipts.Dispute{
		Request: m.request.JSON(), QuoteEvent: quote.JSON(), Invoice: []byte(m.bolt11 + "\n"),
		Preimage: []byte(preimage().String() + "\n"), Boxes: map[string][]byte{},
	}
	key, err := receipts.NewSealKey(preimage(), hashing.Bytes(m.bundle.Quote), m.request.ID, hashing.Bytes(m.bundle.Seal))
	if err != nil {
		t.Fatal(err)
	}
	result := m.result
	contents := [][]byte{m.bundle.Result, m.bundle.Replay}
	for _, hash := range slices.Sorted(maps.Keys(m.bundle.Artifacts)) {
		contents = append(contents, m.bundle.Artifacts[hash])
	}
	boxes, err := key.SealAll(m.bundle.Seal, contents)
	if err != nil {
		t.Fatal(err)
	}
	for _, box := range boxes {
		d.Boxes[hashing.Bytes(box).Hex()] = box
		result.Tags = append(result.Tags, []string{"blob", receipts.RoleSealed, hashing.Bytes(box).String()})
	}
	if change != nil {
		change(d, &result)
	}
	sign(&result, person("provider"))
	if d.Result == nil {
		d.Result = result.JSON()
	}
	return d
}

func TestRulings(t *testing.T) {
	other := recipe{}.make()
	for name, tt := range map[string]struct {
		change  func(*receipts.Dispute, *receipts.Event)
		verdict receipts.Verdict
		exit    int
	}{
		"delivered": {nil, receipts.VerdictDelivered, receipts.ExitFailed},
		"no commitment": {func(_ *receipts.Dispute, ev *receipts.Event) {
			ev.Tags = append(ev.Tags, []string{"commitment", hashing.Bytes(nil).String()})
		}, receipts.VerdictFalseBox, receipts.ExitProved},
		"a box twice": {func(_ *receipts.Dispute, ev *receipts.Event) {
			ev.Tags = append(ev.Tags, ev.Tags[len(ev.Tags)-1])
		}, receipts.VerdictFalseBox, receipts.ExitProved},
		"box gone": {func(d *receipts.Dispute, _ *receipts.Event) { clear(d.Boxes) }, receipts.VerdictOpen, receipts.ExitNotProvable},
		"box changed by the buyer": {func(d *receipts.Dispute, _ *receipts.Event) {
			for hash := range d.Boxes {
				d.Boxes[hash] = []byte("noise")
			}
		}, receipts.VerdictOpen, receipts.ExitNotProvable},
		"no result": {func(d *receipts.Dispute, _ *receipts.Event) { d.Result = []byte{} }, receipts.VerdictOpen, receipts.ExitNotProvable},
		"result by another": {func(d *receipts.Dispute, ev *receipts.Event) {
			e := *ev
			sign(&e, person("stranger"))
			d.Result = e.JSON()
		}, receipts.VerdictOpen, receipts.ExitNotProvable},
		"another's request": {func(d *receipts.Dispute, _ *receipts.Event) {
			d.Request = recipe{buyer: person("other")}.make().bundle.Request
		}, receipts.VerdictOpen, receipts.ExitNotProvable},
		"another invoice":  {func(d *receipts.Dispute, _ *receipts.Event) { d.Invoice = []byte(other.bolt11) }, receipts.VerdictOpen, receipts.ExitNotProvable},
		"another preimage": {func(d *receipts.Dispute, _ *receipts.Event) { d.Preimage = []byte(strings.Repeat("01", 32)) }, receipts.VerdictOpen, receipts.ExitNotProvable},
		"never paid":       {func(d *receipts.Dispute, _ *receipts.Event) { d.Preimage = nil }, receipts.VerdictOpen, receipts.ExitNotProvable},
		"kind of the quote": {func(d *receipts.Dispute, _ *receipts.Event) {
			ev, err := receipts.ParseEvent(d.QuoteEvent, len(d.QuoteEvent))
			if err != nil {
				t.Fatal(err)
			}
			ev.Kind = 1
			sign(&ev, person("provider"))
			d.QuoteEvent = ev.JSON()
		}, receipts.VerdictOpen, receipts.ExitNotProvable},
		"quote not signed": {func(d *receipts.Dispute, _ *receipts.Event) { d.QuoteEvent = d.Request }, receipts.VerdictOpen, receipts.ExitNotProvable},
	} {
		t.Run(name, func(t *testing.T) {
			r := disputed(t, tt.change).Rule(pins())
			if r.Verdict != tt.verdict || r.ExitCode() != tt.exit || r.Reason == "" {
				t.Errorf("%+v", r)
			}
		})
	}
	for name, r := range map[string]recipe{
		"the work broke off": {output: func(out map[string]any) { out["status"] = "error" }},
		"not as expected":    {document: expectSeven},
		"other commands":     {output: func(out map[string]any) { out["runs"].([]any)[0].(map[string]any)["cmd"] = "true" }},
		"breaks its schema":  {output: func(out map[string]any) { delete(out, "status") }},
	} {
		if got := disputedSale(t, r, nil).Rule(pins()); got.Verdict != receipts.VerdictNoAnswer || got.ExitCode() != receipts.ExitProved {
			t.Errorf("%s: %+v", name, got)
		}
	}
	for name, r := range map[string]recipe{
		"promised in the clear": {quote: func(q *receipts.Quote) { q.Delivery = receipts.DeliveryPlain }},
		"kind of the request":   {request: func(ev *receipts.Event) { ev.Kind = 1 }},
		"kind of the result":    {resultEvent: func(ev *receipts.Event) { ev.Kind = 6051 }},
	} {
		if got := disputedSale(t, r, nil).Rule(pins()); got.Verdict != receipts.VerdictOpen {
			t.Errorf("%s: %+v", name, got)
		}
	}
	stranger := pins()
	stranger.Provider = xOnly(person("stranger"))
	if r := disputed(t, nil).Rule(stranger); r.Verdict != receipts.VerdictOpen {
		t.Errorf("another provider was pinned: %+v", r)
	}
	d := disputed(t, nil)
	d.Result = nil
	if r := d.Rule(pins()); r.Verdict != receipts.VerdictNoResult {
		t.Errorf("no result: %+v", r)
	}
}

func TestReadDisputeRefuses(t *testing.T) {
	good := fstest.MapFS{receipts.FileRequest: {Data: []byte("{}")}, receipts.FileQuoteEvent: {Data: []byte("{}")}}
	if _, err := receipts.ReadDispute(good, receipts.Limits{}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(fstest.MapFS){
		"no request":     func(f fstest.MapFS) { delete(f, receipts.FileRequest) },
		"name of a box":  func(f fstest.MapFS) { f["boxes/x"] = &fstest.MapFile{} },
		"large document": func(f fstest.MapFS) { f[receipts.FileInvoice] = &fstest.MapFile{Data: make([]byte, 1<<20+1)} },
		"large box":      func(f fstest.MapFS) { f["boxes/"+strings.Repeat("a", 64)] = &fstest.MapFile{Data: make([]byte, 200)} },
	} {
		f := fstest.MapFS{}
		for k, v := range good {
			f[k] = v
		}
		change(f)
		if _, err := receipts.ReadDispute(f, receipts.Limits{FileBytes: 100}); !errors.Is(err, receipts.ErrBundle) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
