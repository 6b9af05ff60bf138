package job

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

// TestDue: a job with a fee waits for the fee until that has its receipt, and from then
// on for its own price.
func TestDue(t *testing.T) {
	j := &Job{Mode: receipts.ModeHold, Charge: Charge{Purpose: receipts.PurposeResult, PriceMsats: 7}}
	if j.Due() != &j.Charge || j.OwesFee() || len(j.Charges()) != 1 {
		t.Errorf("a job without a fee waits for %+v", j.Due())
	}

	j.Engagement = &Charge{Purpose: receipts.PurposeEngagement, PriceMsats: 1}
	if j.Due() != j.Engagement || !j.OwesFee() {
		t.Errorf("a job with a fee waits for %+v", j.Due())
	}
	j.Engagement.Payment = &Payment{State: payments.InvoiceSettled} // paid, and not yet durable as a receipt
	if j.Due() != j.Engagement {
		t.Error("a fee without its receipt counts as paid")
	}
	j.Engagement.Receipt = []byte("{}")
	if j.Due() != &j.Charge || j.OwesFee() {
		t.Errorf("after its fee the job waits for %+v", j.Due())
	}
	if got := j.Charges(); len(got) != 2 || got[0] != &j.Charge || got[1] != j.Engagement {
		t.Errorf("charges %+v", got)
	}
}

// TestPaidFirst: only a result that is paid for afterwards, or not at all, may run
// unpaid; a fee never.
func TestPaidFirst(t *testing.T) {
	for mode, first := range map[receipts.Mode]bool{
		receipts.ModeHold: true, receipts.ModePrepay: true, receipts.ModePostpay: false, receipts.ModeFree: false,
	} {
		j := &Job{Mode: mode, Charge: Charge{Purpose: receipts.PurposeResult}, Engagement: &Charge{Purpose: receipts.PurposeEngagement}}
		if j.PaidFirst(&j.Charge) != first || !j.PaidFirst(j.Engagement) {
			t.Errorf("%s: the result first %v, the fee first %v", mode, j.PaidFirst(&j.Charge), j.PaidFirst(j.Engagement))
		}
	}
}

func TestIsInvoiced(t *testing.T) {
	for name, c := range map[string]struct {
		charge Charge
		asked  bool
	}{
		"quoted":       {Charge{}, false},
		"asked":        {Charge{BOLT11: "lnbc1"}, true},
		"held":         {Charge{BOLT11: "lnbc1", Payment: &Payment{State: payments.InvoiceHeld}}, true},
		"ours":         {Charge{BOLT11: "lnbc1", Receipt: []byte("{}")}, false},
		"of no amount": {Charge{Receipt: []byte("{}")}, false},
	} {
		if got := c.charge.IsInvoiced(); got != c.asked {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestLeftMsats: what is on its way counts as sent, a failed attempt as never made, and
// what the miners did not take is still owed.
func TestLeftMsats(t *testing.T) {
	open := Refund{Msats: 30}
	failed := Refund{Msats: 30, End: &RefundEnd{State: payments.PaymentFailed, UnusedMsats: 5}}
	paid := Refund{Msats: 30, End: &RefundEnd{State: payments.PaymentSucceeded}}
	cheaper := Refund{Msats: 30, End: &RefundEnd{State: payments.PaymentSucceeded, UnusedMsats: 10}}
	for name, c := range map[string]struct {
		attempts []Refund
		left     int64
	}{
		"none":               {nil, 100},
		"on its way":         {[]Refund{open}, 70},
		"failed":             {[]Refund{failed}, 100},
		"failed, then again": {[]Refund{failed, open}, 70},
		"paid":               {[]Refund{paid}, 70},
		"paid for less":      {[]Refund{cheaper}, 80},
		"paid twice":         {[]Refund{paid, cheaper, open}, 20},
		"more than was owed": {[]Refund{paid, paid, paid, paid}, 0},
	} {
		if got := (Debt{Credit: Credit{Msats: 100}, Attempts: c.attempts}).LeftMsats(); got != c.left {
			t.Errorf("%s: %d msats are left, want %d", name, got, c.left)
		}
	}
}

// TestLeftIsNeverMoreThanOwed: whatever the attempts, what is left is from nothing to
// the whole debt, and a further attempt that may succeed never raises it.
func TestLeftIsNeverMoreThanOwed(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		d := Debt{Credit: Credit{Msats: r.Int64N(1000)}}
		before := d.LeftMsats()
		for range r.IntN(5) {
			a := Refund{Msats: r.Int64N(1000)}
			if k := r.IntN(3); k > 0 {
				a.End = &RefundEnd{State: []payments.PaymentState{payments.PaymentFailed, payments.PaymentSucceeded}[k-1], UnusedMsats: r.Int64N(a.Msats + 1)}
			}
			d.Attempts = append(d.Attempts, a)
			left := d.LeftMsats()
			if left < 0 || left > d.Msats || left > before {
				t.Fatalf("%d of %d msats are left after %+v, were %d", left, d.Msats, d.Attempts, before)
			}
			before = left
		}
	}
}

func TestSentMsats(t *testing.T) {
	for to, want := range map[string]int64{
		"":             5000,
		"lnbc50n1pabc": 5000,
		"bitcoin:bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq?amount=0.00000004": 4000,
		"bitcoin:bc1qar0srrr7xfkvy5l643lydnw9re59gtzzwf5mdq":                   5000,
		"bitcoin:?amount=x": 5000,
	} {
		if got := (Refund{BOLT11: to, Msats: 5000}).SentMsats(); got != want {
			t.Errorf("%q gets %d msats of 5000, want %d", to, got, want)
		}
	}
}

// TestParsed: an event that this process made is not read again, and one of another
// life is.
func TestParsed(t *testing.T) {
	made := nostr.Event{Kind: 7000, Content: "made"}
	doc, err := json.Marshal(nostr.Event{Kind: 6050, Content: "stored"})
	if err != nil {
		t.Fatal(err)
	}
	if ev, err := (OutEvent{Event: doc, Made: &made}).Parsed(); err != nil || ev.Content != "made" {
		t.Errorf("%+v, %v", ev, err)
	}
	if ev, err := (OutEvent{Event: doc}).Parsed(); err != nil || ev.Content != "stored" || ev.Kind != 6050 {
		t.Errorf("%+v, %v", ev, err)
	}
	for _, bad := range []string{"", "[]", `{"kind":"x"}`} {
		if _, err := (OutEvent{Event: []byte(bad)}).Parsed(); err == nil {
			t.Errorf("%q is read as an event", bad)
		}
	}
}

// TestTable: each price of an offer is that of its table; none is left out or swapped.
func TestTable(t *testing.T) {
	o := reflect.New(reflect.TypeFor[Offer]()).Elem()
	for i := range o.NumField() {
		if o.Field(i).Kind() == reflect.Int64 {
			o.Field(i).SetInt(int64(i + 1))
		}
	}
	table := reflect.ValueOf(o.Interface().(Offer).Table())
	for i := range o.NumField() {
		if o.Field(i).Kind() != reflect.Int64 {
			continue
		}
		name := o.Type().Field(i).Name
		if f := table.FieldByName(name); !f.IsValid() || f.Int() != int64(i+1) {
			t.Errorf("the table lacks %s", name)
		}
	}
}

// TestReason: on the wire a reason is its code, and words after it if it has any.
func TestReason(t *testing.T) {
	for _, c := range []struct {
		reason Reason
		wire   string
	}{
		{Reason{}, ""},
		{Because(CodeUnpaid, ""), "unpaid"},
		{Because(CodeDeadline, "after 3 s"), "deadline: after 3 s"},
		{Because(CodeInternal, "a: b"), "internal: a: b"},
	} {
		if got := c.reason.String(); !strings.HasPrefix(c.wire, string(c.reason.Code)) || got != c.wire {
			t.Errorf("%+v is %q on the wire, want %q", c.reason, got, c.wire)
		}
	}

	err := fmt.Errorf("take the request: %w", Refuse(CodeOverCapacity, "8 jobs"))
	var refused *Refusal
	if !errors.As(err, &refused) || refused.Reason != Because(CodeOverCapacity, "8 jobs") || refused.Error() != "over_capacity: 8 jobs" {
		t.Errorf("the reason is lost in %v", err)
	}
	if errors.As(fmt.Errorf("over_capacity: 8 jobs"), &refused) {
		t.Error("words alone are a refusal")
	}
}

// TestCodesAreWords: other programs compare codes, so each is one word and no other's.
func TestCodesAreWords(t *testing.T) {
	codes := Codes()
	for i, c := range codes {
		if c == "" || strings.Trim(string(c), "abcdefghijklmnopqrstuvwxyz_") != "" || slices.Index(codes, c) != i {
			t.Errorf("code %q is no word, or there twice", c)
		}
	}
}

// TestEveryWayEnds: from each state that a job can be in, some way leads to an end, and
// none leads to the state of a request that was never taken.
func TestEveryWayEnds(t *testing.T) {
	for _, from := range States() {
		seen, next := map[State]bool{from: true}, []State{from}
		ends := false
		for len(next) > 0 {
			s := next[0]
			next = next[1:]
			ends = ends || s.Terminal()
			for _, to := range leads[s] {
				if !seen[to] {
					seen[to], next = true, append(next, to)
				}
			}
		}
		if !ends || from != StateRefused && seen[StateRefused] {
			t.Errorf("from %s a job comes to %v", from, seen)
		}
	}
	if got := StateSucceeded.Before(); !slices.Equal(got, []State{StateDelivering}) {
		t.Errorf("a job succeeds from %v: a result that was not delivered is none", got)
	}
	if StateQuoted.Leads(StateDelivering) || StateQuoted.Leads(StateSucceeded) || State("other").Leads(StatePaid) {
		t.Error("a job is delivered without a run")
	}
	if got := StateRefused.Before(); len(got) != 0 {
		t.Errorf("a request is refused after %v", got)
	}
}

// TestSecretStays: what was derived before a crash, or by an older version, is derived
// again.
func TestSecretStays(t *testing.T) {
	c := Charge{Nonce: []byte("0123456789abcdef")}
	root := []byte("0123456789abcdef0123456789abcdef")
	if secret := c.Secret(root, "lightwork/preimage/v1", "ab12"); hex.EncodeToString(secret[:]) != "ad4894d720d63c0a41a9448308a937f6507e002f5548b41cfc0aa83b72745f5d" {
		t.Errorf("%x", secret)
	}
	for _, other := range [][32]byte{
		c.Secret(root[1:], "lightwork/preimage/v1", "ab12"), c.Secret(root, "lightwork/box/v1", "ab12"),
		c.Secret(root, "lightwork/preimage/v1", "ab13"), (&Charge{Nonce: []byte("x")}).Secret(root, "lightwork/preimage/v1", "ab12"),
	} {
		if other == c.Secret(root, "lightwork/preimage/v1", "ab12") {
			t.Error("another root, purpose, job or nonce gives the same secret")
		}
	}
}
