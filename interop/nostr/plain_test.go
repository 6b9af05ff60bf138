package nostr_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/interop/outside"
)

// TestPlainProviders: what our buyer makes of providers that do only what
// NIP-90 says. It takes what is free, and pays nobody.
func TestPlainProviders(t *testing.T) {
	w := newWorld(t)
	w.Write(t, "job.json", rankJob)
	const failed, usage = 1, 2
	for _, c := range []struct {
		habit, mode string
		code        int
		says        string // in what the buyer tells
	}{
		{"minimal", "free", 0, "delivers the result"},
		{"words", "free", 0, "delivers the result"},
		{"unbound", "free", 0, "which nothing proves"},
		{"unhashed", "free", 0, "which nothing proves"},
		{"untyped", "free", failed, "result mismatch: not acceptable"},
		{"afterwards", "free", failed, "delivers the result"},
		{"bare", "prepay", failed, "quote mismatch: "},
		{"incomplete", "prepay", failed, "quote mismatch: invalid document: quote "},
		{"description", "prepay", failed, "invoice mismatch: "},
		{"unlisted", "prepay", usage, "knows NIP-90 alone"},
		{"unlisted", "free", 0, "which nothing proves"},
	} {
		t.Run(c.habit, func(t *testing.T) {
			seller := outside.Node(t, "nostr-tools/plain.mjs", w.Options("habit", c.habit, "name", "plain-"+c.habit+"-"+c.mode))
			seller.Await(t, &seller.Out, `"selling"`)
			p := submit(t, w, outside.Lines(t, seller.Out.Text())[0]["pubkey"].(string), c.mode)
			if code := p.Ended(t); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(p.Errs.Text(), c.says) {
				t.Errorf("the buyer says %q, not %q", p.Errs.Text(), c.says)
			}
			if strings.Contains(p.Errs.Text(), "signs the acceptance") {
				t.Errorf("the buyer pays: %q", p.Errs.Text())
			}
		})
	}
	status, err := w.Lightwork("wallet", "status").Output()
	if err != nil || !strings.Contains(string(status), "1000000 sat") {
		t.Errorf("the wallet after all this: %s, %v", status, err)
	}
}

// TestOutside: with the user's leave our buyer pays programs that know NIP-90
// alone, and says what nothing proves.
func TestOutside(t *testing.T) {
	w := newWorld(t)
	w.Write(t, "job.json", rankJob)
	for i, c := range []struct {
		habit string
		args  []string
		says  string
	}{
		{"stranger", []string{"--prompt", "Which fruit is yellow?"}, "nothing binds this payment"},
		{"stranger", []string{"--schema", "oa.retrieval_rerank.v1", "--input", "job.json"}, "are no oa.retrieval_rerank.v1 result"},
		{"afterwardsOutside", []string{"--prompt", "Which fruit is yellow?"}, "nothing binds this payment"},
		{"underscore", []string{"--schema", "oa.retrieval_rerank.v1", "--input", "job.json", "--mode", "prepay"}, "signed none"},
	} {
		t.Run(c.habit, func(t *testing.T) {
			seller := outside.Node(t, "nostr-tools/plain.mjs", w.Options("habit", c.habit, "name", fmt.Sprint("outside-", i)))
			seller.Await(t, &seller.Out, `"selling"`)
			key := outside.Lines(t, seller.Out.Text())[0]["pubkey"].(string)
			p := w.Start(t, append([]string{"buyer", "submit", "--outside", "--provider", key, "--max-msats", "10000", "--json"}, c.args...)...)
			code := p.Ended(t)
			var done struct {
				State     string
				PaidMsats int64 `json:"paid_msats"`
				Outside   bool
				Output    any
				Open      []struct{ Name, State string } `json:"not_provable"`
			}
			if err := json.Unmarshal([]byte(p.Out.Text()), &done); err != nil || done.State != "done" || done.PaidMsats != 3000 || len(done.Open) == 0 {
				t.Errorf("%+v, %v: %s", done, err, p.Out.Text())
			}
			want, quoted := 0, c.habit == "underscore" // which quotes, so that a receipt was to be expected
			if quoted {
				want = 4
			}
			if code != want || done.Outside == quoted || done.Output == nil {
				t.Errorf("exit code %d, want %d: %+v", code, want, done)
			}
			if !strings.Contains(p.Errs.Text(), c.says) {
				t.Errorf("the buyer says %q, not %q", p.Errs.Text(), c.says)
			}
		})
	}
}
