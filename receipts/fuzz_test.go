package receipts_test

import (
	"bytes"
	"testing"

	"github.com/lightwork-market/lightwork/receipts"
)

func FuzzParseEvent(f *testing.F) {
	m := recipe{}.make()
	for _, doc := range [][]byte{[]byte(publicNote), []byte(publicList), m.bundle.Request, m.bundle.ReceiptEvent, []byte(`{"tags":[[null]]}`)} {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		ev, err := receipts.ParseEvent(doc, 64<<10)
		if err != nil {
			return
		}
		again, err := receipts.ParseEvent(ev.JSON(), len(ev.JSON()))
		if err != nil || !bytes.Equal(again.JSON(), ev.JSON()) || again.ComputeID() != ev.ComputeID() {
			t.Fatalf("written and read again: %v", err)
		}
		_ = ev.Verify()
	})
}

func FuzzParseQuote(f *testing.F) {
	m := recipe{}.make()
	f.Add(m.bundle.Quote)
	f.Add([]byte(`{"version":1}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		q, err := receipts.ParseQuote(doc)
		if err != nil {
			return
		}
		if again, err := q.Canonical(); err != nil || !bytes.Equal(again, doc) {
			t.Fatalf("a quote with two forms: %v", err)
		}
	})
}

func FuzzParseReceipt(f *testing.F) {
	f.Add(recipe{}.make().bundle.Receipt)
	f.Add(recipe{first: true, noAcceptance: true}.make().bundle.Receipt)
	f.Fuzz(func(t *testing.T, doc []byte) {
		r, err := receipts.ParseReceipt(doc)
		if err != nil {
			return
		}
		if again, err := r.Canonical(); err != nil || !bytes.Equal(again, doc) {
			t.Fatalf("a receipt with two forms: %v", err)
		}
	})
}

func FuzzParseAcceptance(f *testing.F) {
	f.Add([]byte(recipe{}.make().accept.Content))
	f.Fuzz(func(t *testing.T, doc []byte) {
		a, err := receipts.ParseAcceptance(doc)
		if err != nil {
			return
		}
		if again, err := a.Canonical(); err != nil || !bytes.Equal(again, doc) {
			t.Fatalf("an acceptance with two forms: %v", err)
		}
	})
}

// No archive makes the reader panic or keep more than its limits, and no
// archive that it reads is proved unless it is the honest one.
func FuzzReadTar(f *testing.F) {
	var honest bytes.Buffer
	m := recipe{}.make()
	if err := m.bundle.WriteTar(&honest); err != nil {
		f.Fatal(err)
	}
	f.Add(honest.Bytes())
	f.Add([]byte{})
	limits := receipts.Limits{TotalBytes: 64 << 10, FileBytes: 16 << 10, Artifacts: 4}
	f.Fuzz(func(t *testing.T, doc []byte) {
		b, err := receipts.ReadTar(bytes.NewReader(doc), limits)
		if err != nil {
			return
		}
		total, same := 0, true
		want := filesOf(m.bundle)
		for name, data := range b.Files() {
			total += len(data)
			same = same && bytes.Equal(want[name], data)
		}
		if total > 64<<10 {
			t.Fatalf("%d bytes kept", total)
		}
		if report := receipts.Verify(b, pins()); report.ExitCode() == receipts.ExitProved && !same {
			t.Fatal("another bundle is proved")
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	bundle, p := recipe{}.make().bundle, pins()
	b.ReportAllocs()
	for b.Loop() {
		if report := receipts.Verify(bundle, p); report.ExitCode() != receipts.ExitProved {
			b.Fatal(report.ExitCode())
		}
	}
}

func BenchmarkEventVerify(b *testing.B) {
	ev := recipe{}.make().result
	b.ReportAllocs()
	for b.Loop() {
		if err := ev.Verify(); err != nil {
			b.Fatal(err)
		}
	}
}
