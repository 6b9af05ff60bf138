package nostr_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// bunker starts a remote signer and returns how to connect to it.
func (w *world) bunker(t *testing.T, deny string) (signer *process, address, user string) {
	t.Helper()
	signer = outside(t, "nostr-tools/bunker.mjs", w.options("secret", "squeamish", "deny", deny))
	signer.await(t, &signer.out, `"bunker"`)
	line := one(t, said(t, signer.out.text()), "bunker")
	return signer, line["address"].(string), line["user"].(string)
}

// connect gives a role's key to a remote signer.
func (w *world) connect(t *testing.T, role, address string) {
	t.Helper()
	cmd := w.lightwork("keys", "connect", role, "--force")
	cmd.Stdin = strings.NewReader(address)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("keys connect: %v\n%s", err, out)
	}
	if strings.Contains(string(out), "squeamish") {
		t.Errorf("the address's secret is shown: %s", out)
	}
}

// TestBunker: provider and buyer both sign with keys that nostr-tools holds.
func TestBunker(t *testing.T) {
	w := newWorld(t)
	w.write(t, "job.json", rankJob)
	seller, address, user := w.bunker(t, "")
	ask := outside(t, "nostr-tools/ask.mjs", w.options("address", address, "secret", "squeamish", "user", user))
	if code := ask.ended(t); code != 0 {
		t.Fatalf("nostr-tools' own client: exit code %d", code)
	}
	checkWords(t, one(t, said(t, ask.out.text()), "signed"), map[string]string{"good": "true"})

	w.connect(t, "provider", address)
	buyer, address, _ := w.bunker(t, "")
	w.connect(t, "buyer", address)
	provider := w.sell(t)
	for _, mode := range []string{"free", "prepay"} {
		p := w.submit(t, user, mode)
		if code := p.ended(t); code != 0 || !strings.Contains(p.out.text(), `"state": "done"`) || mode == "prepay" && !strings.Contains(p.out.text(), "rcpt_") {
			t.Fatalf("buy in mode %s: exit code %d", mode, code)
		}
	}
	for _, want := range []string{`"kind":6050`, `"kind":7000`, `"kind":7002`, `"kind":31990`, `"kind":24242`} {
		if !strings.Contains(seller.out.text(), want) {
			t.Errorf("the provider's signer did not sign %s", want)
		}
	}
	if !strings.Contains(buyer.out.text(), `"kind":7001`) {
		t.Error("the buyer's signer did not sign the acceptance")
	}
	provider.stop(t)
}

// TestBunkerRefuses: a signer that denies a kind is told as it is, and costs
// nothing.
func TestBunkerRefuses(t *testing.T) {
	w := newWorld(t)
	w.write(t, "job.json", rankJob)
	w.sell(t)
	show := w.start(t, "keys", "show", "--role", "provider", "--json")
	show.ended(t)
	var keys []struct{ PubKey string }
	if err := json.Unmarshal([]byte(show.out.text()), &keys); err != nil || len(keys) != 1 {
		t.Fatalf("keys show: %v", err)
	}
	_, address, _ := w.bunker(t, "5050")
	w.connect(t, "buyer", address)
	p := w.submit(t, keys[0].PubKey, "prepay")
	if code := p.ended(t); code == 0 || !strings.Contains(p.errs.text(), "the remote signer refuses sign_event: kind 5050 is not for you") {
		t.Errorf("exit code %d", code)
	}
	list := w.start(t, "buyer", "list", "--json")
	if code := list.ended(t); code != 0 || strings.Contains(list.out.text(), "request_id") {
		t.Errorf("exit code %d; something was bought: %s", code, list.out.text())
	}
}
