package receipts_test

import (
	"bytes"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
)

func TestVerifyProvesEveryClaim(t *testing.T) {
	simnet := pins()
	simnet.Network = payments.Simnet
	for name, test := range map[string]struct {
		recipe recipe
		pins   receipts.Pins
	}{
		"hold on play money":    {recipe{}, pins()},
		"hold on simnet":        {recipe{network: payments.Simnet}, simnet},
		"prepay":                {recipe{mode: receipts.ModePrepay}, pins()},
		"postpay":               {recipe{mode: receipts.ModePostpay}, pins()},
		"the first receipt":     {recipe{first: true}, pins()},
		"pins as npub":          {recipe{}, npubPins()},
		"result sent as a blob": {recipe{resultEvent: func(ev *receipts.Event) { ev.Content = "" }}, pins()},
	} {
		t.Run(name, func(t *testing.T) {
			report := receipts.Verify(test.recipe.make().bundle, test.pins)
			wantStates(t, report, nil)
			if report.ExitCode() != receipts.ExitProved || len(report.SelfAsserted) != 0 || report.Unusable != "" {
				t.Errorf("exit %d, self-asserted %v, unusable %q", report.ExitCode(), report.SelfAsserted, report.Unusable)
			}
		})
	}
}

func npubPins() receipts.Pins {
	p := pins()
	p.Provider, p.Buyer = must(receipts.Npub(p.Provider)), must(receipts.Npub(p.Buyer))
	return p
}

// The order of states and steps must not depend on chance.
func TestVerifyIsDeterministic(t *testing.T) {
	m := recipe{finished: func(b *receipts.Bundle) { clear(b.Artifacts) }}.make()
	first := receipts.Verify(m.bundle, pins())
	for range 60 {
		again := receipts.Verify(m.bundle, pins())
		if again.Claim(receipts.ClaimResult).Reason != first.Claim(receipts.ClaimResult).Reason {
			t.Fatalf("%q, then %q", first.Claim(receipts.ClaimResult).Reason, again.Claim(receipts.ClaimResult).Reason)
		}
	}
}

func TestVerifyWithoutPins(t *testing.T) {
	report := receipts.Verify(recipe{}.make().bundle, receipts.Pins{})
	wantStates(t, report, map[string]receipts.State{receipts.ClaimPayeePinned: receipts.NotProvable})
	if want := []string{"provider", "buyer", "payee", "network"}; !slices.Equal(report.SelfAsserted, want) {
		t.Errorf("self-asserted %v, want %v", report.SelfAsserted, want)
	}
	if report.ExitCode() != receipts.ExitProved {
		t.Errorf("exit %d: payee_pinned is not required", report.ExitCode())
	}
	required := receipts.Verify(recipe{}.make().bundle, receipts.Pins{Required: []string{receipts.ClaimPayeePinned}})
	if required.ExitCode() != receipts.ExitNotProvable {
		t.Errorf("exit %d with payee_pinned required and no pin", required.ExitCode())
	}
}

func TestPinsThatDoNotMatch(t *testing.T) {
	stranger := person("stranger")
	for name, test := range map[string]struct {
		change func(*receipts.Pins)
		want   map[string]receipts.State
	}{
		"provider": {func(p *receipts.Pins) { p.Provider = xOnly(stranger) }, map[string]receipts.State{receipts.ClaimSignature: receipts.Failed}},
		"buyer":    {func(p *receipts.Pins) { p.Buyer = xOnly(stranger) }, map[string]receipts.State{receipts.ClaimJob: receipts.Failed, receipts.ClaimBuyerAccepted: receipts.Failed}},
		"payee":    {func(p *receipts.Pins) { p.Payee = compressed(stranger) }, map[string]receipts.State{receipts.ClaimPayeePinned: receipts.Failed}},
		"network":  {func(p *receipts.Pins) { p.Network = payments.Mainnet }, map[string]receipts.State{receipts.ClaimAmount: receipts.Failed}},
	} {
		t.Run(name, func(t *testing.T) {
			p := pins()
			test.change(&p)
			report := receipts.Verify(recipe{}.make().bundle, p)
			wantStates(t, report, test.want)
			if report.ExitCode() != receipts.ExitFailed {
				t.Errorf("exit %d", report.ExitCode())
			}
		})
	}
}

func TestUnusable(t *testing.T) {
	good := recipe{}.make().bundle
	for name, test := range map[string]struct {
		bundle *receipts.Bundle
		pins   receipts.Pins
	}{
		"no bundle":       {nil, receipts.Pins{}},
		"empty":           {&receipts.Bundle{}, receipts.Pins{}},
		"not JSON":        {&receipts.Bundle{Receipt: []byte("PDF")}, receipts.Pins{}},
		"another object":  {&receipts.Bundle{Receipt: []byte("{}")}, receipts.Pins{}},
		"bad pin":         {good, receipts.Pins{Provider: "npub1"}},
		"pin not a point": {good, receipts.Pins{Buyer: strings.Repeat("f", 64)}},
		"bad payee":       {good, receipts.Pins{Payee: strings.Repeat("0", 66)}},
		"bad network":     {good, receipts.Pins{Network: "moon"}},
		"unknown claim":   {good, receipts.Pins{Required: []string{"valid"}}},
	} {
		t.Run(name, func(t *testing.T) {
			report := receipts.Verify(test.bundle, test.pins)
			if report.ExitCode() != receipts.ExitUnusable || report.Unusable == "" {
				t.Errorf("exit %d, unusable %q", report.ExitCode(), report.Unusable)
			}
			if len(report.Claims) != len(receipts.ClaimNames()) {
				t.Fatalf("%d claims listed", len(report.Claims))
			}
			for _, c := range report.Claims {
				if c.State == receipts.Proved {
					t.Errorf("%s is proved", c.Name)
				}
			}
		})
	}
}

// claimOf says which claim a changed byte in a file must fail.
var claimOf = map[string]string{
	receipts.FileReceipt:      receipts.ClaimSignature,
	receipts.FileReceiptEvent: receipts.ClaimSignature,
	receipts.FileQuote:        receipts.ClaimInvoiceCommits,
	receipts.FileAcceptance:   receipts.ClaimBuyerAccepted,
	receipts.FileRequest:      receipts.ClaimJob,
	receipts.FileResultEvent:  receipts.ClaimResult,
	receipts.FileResult:       receipts.ClaimResult,
	receipts.FileReplay:       receipts.ClaimTrajectory,
	receipts.FilePolicy:       receipts.ClaimPolicy,
	receipts.FilePRSummary:    receipts.ClaimResult,
	receipts.FilePrevious:     receipts.ClaimChain,
}

func claimFor(file string) string {
	if strings.HasPrefix(file, receipts.ArtifactDir) {
		return receipts.ClaimResult
	}
	return claimOf[file]
}

// reload passes files through the reader, as a stranger would get them.
func reload(t *testing.T, files map[string][]byte) (*receipts.Bundle, error) {
	t.Helper()
	return receipts.ReadBundle(folder(files), receipts.Limits{})
}

func filesOf(b *receipts.Bundle) map[string][]byte {
	return maps.Collect(b.Files())
}

// One changed byte, one byte more or one less, in any file: the right claim
// fails, or there is no receipt left to judge.
func TestEveryByteCounts(t *testing.T) {
	short := recipe{}.make().bundle
	short.Replay = redacted(short.Replay)
	for variant, b := range map[string]*receipts.Bundle{"full": recipe{}.make().bundle, "redacted": short} {
		files := filesOf(b)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if variant == "redacted" && name != receipts.FileReplay {
				continue
			}
			t.Run(variant+"/"+name, func(t *testing.T) {
				for change, content := range changes(files[name]) {
					spoiled := maps.Clone(files)
					spoiled[name] = content
					bundle, err := reload(t, spoiled)
					if err != nil {
						continue // unusable, which is never proved
					}
					report := receipts.Verify(bundle, pins())
					if report.ExitCode() == receipts.ExitUnusable && name == receipts.FileReceipt {
						continue
					}
					if got := report.Claim(claimFor(name)); got.State != receipts.Failed || report.ExitCode() != receipts.ExitFailed {
						t.Fatalf("%s: %s is %q, exit %d: %s", change, got.Name, got.State, report.ExitCode(), got.Reason)
					}
				}
			})
		}
	}
}

// changes yields spoiled copies of a file.
func changes(content []byte) map[string][]byte {
	out := map[string][]byte{
		"one byte more": append(bytes.Clone(content), '\n'),
		"one byte less": content[:len(content)-1],
		"space before":  append([]byte(" "), content...),
		"empty":         {},
	}
	const places = 24
	for i := range places {
		at := i * (len(content) - 1) / (places - 1)
		for _, mask := range []byte{0x01, 0x20, 0x80} {
			spoiled := bytes.Clone(content)
			spoiled[at] ^= mask
			out[strings.Join([]string{"byte", hex.EncodeToString([]byte{byte(at >> 8), byte(at), mask})}, " ")] = spoiled
		}
	}
	return out
}

// A stripped bundle is not provable, never proved and never failed.
func TestStripped(t *testing.T) {
	files := filesOf(recipe{}.make().bundle)
	for name := range files {
		if name == receipts.FileReceipt || name == receipts.FilePRSummary {
			continue // without the one nothing is left; the other is a copy
		}
		t.Run(name, func(t *testing.T) {
			stripped := maps.Clone(files)
			delete(stripped, name)
			bundle, err := reload(t, stripped)
			if err != nil {
				t.Fatal(err)
			}
			report := receipts.Verify(bundle, pins())
			if got := report.Claim(claimFor(name)); got.State != receipts.NotProvable {
				t.Errorf("%s is %q: %s", got.Name, got.State, got.Reason)
			}
			for _, c := range report.Claims {
				if c.State == receipts.Failed {
					t.Errorf("%s failed: %s", c.Name, c.Reason)
				}
			}
			if report.ExitCode() != receipts.ExitNotProvable {
				t.Errorf("exit %d", report.ExitCode())
			}
		})
	}
}

func TestRedactedReplaySaysSo(t *testing.T) {
	b := recipe{}.make().bundle
	b.Replay = redacted(b.Replay)
	report := receipts.Verify(b, pins())
	wantStates(t, report, nil)
	if reason := report.Claim(receipts.ClaimTrajectory).Reason; !strings.Contains(reason, "redacted") {
		t.Errorf("reason %q", reason)
	}
}

func TestPostpaySaysSo(t *testing.T) {
	report := receipts.Verify(recipe{mode: receipts.ModePostpay}.make().bundle, pins())
	for _, name := range []string{receipts.ClaimPreimage, receipts.ClaimTrajectory} {
		if reason := report.Claim(name).Reason; !strings.Contains(reason, "deviates") {
			t.Errorf("%s: reason %q", name, reason)
		}
	}
}

func TestNotes(t *testing.T) {
	count := func(r receipts.Report, text string) (n int) {
		for _, note := range r.Notes {
			if strings.Contains(note, text) {
				n++
			}
		}
		return n
	}
	all := receipts.Verify(recipe{mode: receipts.ModePostpay}.make().bundle, receipts.Pins{})
	fee := receipts.Verify(recipe{fee: true}.make().bundle, receipts.Pins{})
	simnet := receipts.Verify(recipe{network: payments.Simnet}.make().bundle, receipts.Pins{})
	mainnet := receipts.Verify(recipe{network: payments.Mainnet}.make().bundle, pins())
	for _, test := range []struct {
		name   string
		report receipts.Report
		text   string
		want   int
	}{
		{"postpay", all, "postpay", 1},
		{"hold", simnet, "postpay", 0},
		{"engagement", fee, "engagement fee", 1},
		{"result", simnet, "engagement fee", 0},
		{"play money", all, "play money", 1},
		{"simnet", simnet, "not bitcoin on the main network", 1},
		{"mainnet", mainnet, "money", 0},
		{"mainnet", mainnet, "main network", 0},
		{"no pins", all, "self-asserted", 1},
		{"all pins", mainnet, "self-asserted", 0},
		{"always", mainnet, "collusion", 1},
	} {
		if got := count(test.report, test.text); got != test.want {
			t.Errorf("%s: %d notes with %q, want %d: %v", test.name, got, test.text, test.want, test.report.Notes)
		}
	}
}
