package nostr_test

import (
	"strings"
	"testing"
)

// TestPlainProviders: what our buyer makes of providers that do only what
// NIP-90 says. It takes free results that name
// the hashes of job and output, and pays nobody.
func TestPlainProviders(t *testing.T) {
	w := newWorld(t)
	w.write(t, "job.json", rankJob)
	const failed = 1
	for _, c := range []struct {
		habit, mode string
		code        int
		says        string // in what the buyer tells
	}{
		{"minimal", "free", 0, "delivers the result"},
		{"words", "free", 0, "delivers the result"},
		{"unbound", "free", failed, "result mismatch: job_hash differs"},
		{"unhashed", "free", failed, "result mismatch: output_hash differs"},
		{"untyped", "free", failed, "result mismatch: not acceptable"},
		{"afterwards", "free", failed, "delivers the result"},
		{"bare", "prepay", failed, "quote mismatch: "},
		{"description", "prepay", failed, "invoice mismatch: "},
		{"underscore", "prepay", failed, "outside: that is all"},
		{"unlisted", "free", failed, "is not announced here"},
	} {
		t.Run(c.habit, func(t *testing.T) {
			seller := outside(t, "nostr-tools/plain.mjs", w.options("habit", c.habit, "name", "plain-"+c.habit))
			seller.await(t, &seller.out, `"selling"`)
			p := w.submit(t, said(t, seller.out.text())[0]["pubkey"].(string), c.mode)
			if code := p.ended(t); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(p.errs.text(), c.says) {
				t.Errorf("the buyer says %q, not %q", p.errs.text(), c.says)
			}
			if strings.Contains(p.errs.text(), "pays") {
				t.Errorf("the buyer pays: %q", p.errs.text())
			}
		})
	}
	status, err := w.lightwork("wallet", "status").Output()
	if err != nil || !strings.Contains(string(status), "1000000 sat") {
		t.Errorf("the wallet after all this: %s, %v", status, err)
	}
}
