package receipts_test

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/receipts"
)

// Every vector, alone and in batches of good and bad ones, has the report that
// it has with each signature checked for itself, to the letter.
func TestBatchSaysWhatSingleChecksSay(t *testing.T) {
	names := vectorFiles(t)
	order := rand.New(rand.NewPCG(1, 2))
	order.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	var batch receipts.Batch
	var want []receipts.Report
	settle := func() {
		for i, got := range batch.Verify() {
			if diff := cmp.Diff(want[i], got); diff != "" {
				t.Errorf("%s: %s", want[i].ReceiptID, diff)
			}
		}
		want = want[:0]
	}
	for _, name := range names {
		bundle, pins := vectorBundle(t, name)
		single := receipts.VerifySingly(bundle, pins)
		if diff := cmp.Diff(single, receipts.Verify(bundle, pins)); diff != "" {
			t.Errorf("%s alone: %s", name, diff)
		}
		batch.Add(bundle, pins)
		want = append(want, single)
		if batch.Full() {
			settle()
		}
	}
	settle()
	if list := batch.Verify(); len(list) != 0 {
		t.Errorf("%d reports of none", len(list))
	}
}

// One signature among those of 500 bundles is false, in every part in turn, and
// by a forger who moves what it is short of to another bundle.
func TestOneBadAmongMany(t *testing.T) {
	var good []*receipts.Bundle
	for i := range 10 {
		good = append(good, recipe{buyer: person(fmt.Sprint("buyer ", i)), node: person(fmt.Sprint("node ", i%3))}.make().bundle)
	}
	p := receipts.Pins{}
	for at, part := range signedParts() {
		bad := recipe{finished: func(b *receipts.Bundle) {
			doc := part.part(b)
			ev := must(receipts.ParseEvent(*doc, len(*doc)))
			ev.Sig = ev.Sig[:126] + map[bool]string{true: "00", false: "01"}[!strings.HasSuffix(ev.Sig, "00")]
			*doc = ev.JSON()
		}}.make().bundle
		place := 37 + 120*at
		var batch receipts.Batch
		for i := range 500 {
			if i == place {
				batch.Add(bad, p)
			} else {
				batch.Add(good[i%len(good)], p)
			}
		}
		for i, report := range batch.Verify() {
			switch {
			case i != place && report.Claim(receipts.ClaimSignature).State != receipts.Proved, i != place && report.ExitCode() != receipts.ExitProved:
				t.Fatalf("%s: good number %d: exit %d", part.name, i, report.ExitCode())
			case i == place:
				if diff := cmp.Diff(receipts.VerifySingly(bad, p), report); diff != "" || report.ExitCode() != receipts.ExitFailed {
					t.Errorf("%s: exit %d, %s", part.name, report.ExitCode(), diff)
				}
			}
		}
	}
}

// Two bundles whose false signatures add up to true ones.
func TestFalseSignaturesThatCancelOut(t *testing.T) {
	moved := func(by uint32, negative bool) *receipts.Bundle {
		return recipe{finished: func(b *receipts.Bundle) {
			ev := must(receipts.ParseEvent(b.ResultEvent, len(b.ResultEvent)))
			var s, d btcec.ModNScalar
			s.SetByteSlice(must(hex.DecodeString(ev.Sig[64:])))
			if d.SetInt(by); negative {
				d.Negate()
			}
			sum := s.Add(&d).Bytes()
			ev.Sig = ev.Sig[:64] + fmt.Sprintf("%x", sum[:])
			b.ResultEvent = ev.JSON()
		}}.make().bundle
	}
	var batch receipts.Batch
	batch.Add(moved(7, false), pins())
	batch.Add(moved(7, true), pins())
	for i, report := range batch.Verify() {
		if c := report.Claim(receipts.ClaimResult); c.State != receipts.Failed || !strings.Contains(c.Reason, "bad signature") {
			t.Errorf("bundle %d: result %s: %s", i, c.State, c.Reason)
		}
	}
}

// The receipt names who signed the invoice, which is a claim like any other:
// one that names somebody else is told who did.
func TestAnotherPayeeIsNamed(t *testing.T) {
	bundle := recipe{receipt: func(r *receipts.Receipt) { r.PayeeNode = compressed(person("stranger")) }}.make().bundle
	report := receipts.Verify(bundle, receipts.Pins{})
	want := fmt.Sprintf("%q", compressed(person("node")))
	if c := report.Claim(receipts.ClaimPayeePinned); c.State != receipts.Failed || !strings.Contains(c.Reason, strings.Trim(want, `"`)) {
		t.Errorf("%s: %s", c.State, c.Reason)
	}
	// The invoice's own signature is as good as ever.
	if c := report.Claim(receipts.ClaimPreimage); c.State != receipts.Proved {
		t.Errorf("preimage: %s: %s", c.State, c.Reason)
	}
}
