package nostr_test

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/interop/outside"
)

// TestBuy: outside clients find our provider by its announcement and buy a job.
func TestBuy(t *testing.T) {
	w := newWorld(t)
	provider := w.Sell(t)
	for _, client := range []string{"ndk", "nostr-tools"} {
		for mode, msats := range map[string]string{"free": "0", "prepay": "2000"} {
			t.Run(client+"/"+mode, func(t *testing.T) {
				p := outside.Node(t, client+"/buy.mjs", w.Options("mode", mode, "name", client+"-"+mode))
				if code := p.Ended(t); code != 0 {
					t.Fatalf("exit code %d", code)
				}
				checkBought(t, outside.Lines(t, p.Out.Text()), mode, msats)
			})
		}
	}
	t.Run("refused", func(t *testing.T) {
		p := outside.Node(t, "nostr-tools/refused.mjs", w.Options())
		if code := p.Ended(t); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		checkWords(t, one(t, outside.Lines(t, p.Out.Text()), "answers"), map[string]string{
			"untyped": "error untyped_job: ", "schema": "error unsupported_schema: ", "input": "error invalid_input: ", "bid": "error bid_too_low: ",
		})
	})
	for _, c := range []struct{ script, scheme, mode string }{
		{"ndk/buy.mjs", "nip44", "free"},
		{"ndk/buy.mjs", "nip44", "prepay"},
		{"nostr-tools/encrypted.mjs", "nip44", "prepay"},
		{"nostr-tools/encrypted.mjs", "nip04", "prepay"},
	} {
		t.Run(c.script+"/"+c.scheme+"/"+c.mode, func(t *testing.T) {
			p := outside.Node(t, c.script, w.Options("mode", c.mode, "name", "hidden-"+c.script[:3]+c.scheme+c.mode, "encrypt", c.scheme))
			if code := p.Ended(t); code != 0 {
				t.Fatalf("exit code %d", code)
			}
			if got := one(t, outside.Lines(t, p.Out.Text()), "result"); got["first"] != "fruit" {
				t.Errorf("result %v", got)
			}
		})
	}
	t.Run("canceled", func(t *testing.T) {
		p := outside.Node(t, "nostr-tools/cancel.mjs", w.Options("name", "canceled"))
		if code := p.Ended(t); code != 0 {
			t.Fatalf("exit code %d", code)
		}
		lines := outside.Lines(t, p.Out.Text())
		if len(lines) != 3 || lines[1]["status"] != "error" || !strings.HasPrefix(lines[1]["info"].(string), "canceled: ") {
			t.Errorf("%v", lines)
		}
		checkWords(t, one(t, lines, "paid"), map[string]string{"late": "SendPayment: "}) // nothing is paid for what is not done
	})
	provider.Stop(t)
}

// checkBought wants the order of docs/protocol/protocol.md: asked to pay where the job
// is paid, begun, delivered, ended.
func checkBought(t *testing.T, lines []map[string]any, mode, msats string) {
	t.Helper()
	count := map[string]int{}
	for _, l := range lines {
		switch l["what"] {
		case "feedback":
			count[l["status"].(string)]++
		case "result":
			if l["request"] != true || l["mine"] != true || l["kind"] != 6050. || l["amount"] != msats || l["first"] != "fruit" {
				t.Errorf("result %v", l)
			}
			count["result"]++
		case "invoice":
			if l["amount"] != true || l["commits"] != true {
				t.Errorf("invoice %v", l)
			}
		case "paid":
			if l["state"] != "succeeded" || l["msats"] != 2000. {
				t.Errorf("payment %v", l)
			}
			count["paid"]++
		}
	}
	paid := 0
	if mode == "prepay" {
		paid = 1
	}
	want := map[string]int{"payment-required": paid, "paid": paid, "processing": 1, "result": 1, "success": 1, "error": 0}
	for what, n := range want {
		if count[what] != n {
			t.Errorf("%d times %s, want %d: %v", count[what], what, n, lines)
		}
	}
}
