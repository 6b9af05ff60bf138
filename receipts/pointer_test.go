package receipts_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// pointer is a signed pointer to the receipt of the default sale, changed before it
// is signed.
func pointer(t *testing.T, change func(*receipts.Event)) receipts.Event {
	t.Helper()
	p := must(receipts.PointerTo(recipe{}.make().bundle.Receipt))
	ev := must(p.Event(settled))
	apply(change, &ev)
	sign(&ev, person("buyer"))
	return ev
}

func TestPointerRoundTrip(t *testing.T) {
	m := recipe{}.make()
	p, err := receipts.ParsePointerEvent(pointer(t, nil))
	if err != nil || p.ReceiptHash != hashing.Bytes(m.bundle.Receipt) || p.ReceiptID != m.receipt.ReceiptID || p.RequestEventID != m.request.ID || p.ProviderID != m.receipt.ProviderID {
		t.Errorf("%+v, %v", p, err)
	}
	ev := pointer(t, nil)
	if got := ev.Values("p"); len(got) != 1 || got[0] != xOnly(person("provider")) {
		t.Errorf("relays find it by %q", got)
	}
	if _, err := receipts.PointerTo([]byte("{}")); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("a pointer to no receipt: %v", err)
	}
}

func TestPointerRefuses(t *testing.T) {
	other := strings.Repeat("1", 64)
	content := func(from, to string) func(*receipts.Event) {
		return func(ev *receipts.Event) {
			if changed := strings.Replace(ev.Content, from, to, 1); changed != ev.Content {
				ev.Content = changed
			} else {
				t.Errorf("no %s in %s", from, ev.Content)
			}
		}
	}
	tag := func(name, value string) func(*receipts.Event) {
		return func(ev *receipts.Event) {
			for i := range ev.Tags {
				if ev.Tags[i][0] == name {
					ev.Tags[i] = []string{name, value}
				}
			}
		}
	}
	for name, change := range map[string]func(*receipts.Event){
		"white space":      content("{", "{ "),
		"unknown field":    content(`"receipt_id"`, `"receipt":"","receipt_id"`),
		"no receipt":       content(`"receipt_id":"rcpt_`, `"rcpt":"`),
		"another hash":     content(`"sha256:`, `"sha512:`),
		"provider in hex":  content(`"npub1`, `"`),
		"a control char":   content(`"rcpt_`, `"\u001b`),
		"large":            func(ev *receipts.Event) { ev.Content += strings.Repeat(" ", 64<<10) },
		"another d":        tag("d", "openagents:receipt_ptr:"+other),
		"another x":        tag("x", other),
		"another request":  tag("e", other),
		"another provider": tag("p", other),
		"two requests":     func(ev *receipts.Event) { ev.Tags = append(ev.Tags, []string{"e", other}) },
		"no tags":          func(ev *receipts.Event) { ev.Tags = ev.Tags[len(ev.Tags)-1:] },
		"another domain":   tag(domain.TagName, "lightwork/receipt/v1"),
		"no domain":        func(ev *receipts.Event) { ev.Tags = ev.Tags[:len(ev.Tags)-1] },
	} {
		if _, err := receipts.ParsePointerEvent(pointer(t, change)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	forged := pointer(t, nil)
	forged.CreatedAt++
	if _, err := receipts.ParsePointerEvent(forged); err == nil {
		t.Error("one whose signature is of another event is taken")
	}
}
