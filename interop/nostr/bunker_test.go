package nostr_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/interop/outside"
)

// bunker starts a remote signer and returns how to connect to it.
func bunker(t *testing.T, w *outside.World, deny string) (signer *outside.Process, address, user string) {
	t.Helper()
	signer = outside.Node(t, "nostr-tools/bunker.mjs", w.Options("secret", "squeamish", "deny", deny))
	signer.Await(t, &signer.Out, `"bunker"`)
	line := one(t, outside.Lines(t, signer.Out.Text()), "bunker")
	return signer, line["address"].(string), line["user"].(string)
}

// connect gives a role's key to a remote signer.
func connect(t *testing.T, w *outside.World, role, address string) {
	t.Helper()
	cmd := w.Lightwork("keys", "connect", role, "--force")
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
	w.Write(t, "job.json", rankJob)
	seller, address, user := bunker(t, w, "")
	ask := outside.Node(t, "nostr-tools/ask.mjs", w.Options("address", address, "secret", "squeamish", "user", user))
	if code := ask.Ended(t); code != 0 {
		t.Fatalf("nostr-tools' own client: exit code %d", code)
	}
	checkWords(t, one(t, outside.Lines(t, ask.Out.Text()), "signed"), map[string]string{"good": "true"})

	connect(t, w, "provider", address)
	buyer, address, _ := bunker(t, w, "")
	connect(t, w, "buyer", address)
	provider := w.Sell(t)
	for _, mode := range []string{"free", "prepay"} {
		p := submit(t, w, user, mode)
		if code := p.Ended(t); code != 0 || !strings.Contains(p.Out.Text(), `"state": "done"`) || mode == "prepay" && !strings.Contains(p.Out.Text(), "rcpt_") {
			t.Fatalf("buy in mode %s: exit code %d", mode, code)
		}
	}
	for _, want := range []string{`"kind":6050`, `"kind":7000`, `"kind":7002`, `"kind":31990`, `"kind":24242`} {
		if !strings.Contains(seller.Out.Text(), want) {
			t.Errorf("the provider's signer did not sign %s", want)
		}
	}
	if !strings.Contains(buyer.Out.Text(), `"kind":7001`) {
		t.Error("the buyer's signer did not sign the acceptance")
	}
	provider.Stop(t)
}

// TestBunkerRefuses: a signer that denies a kind is told as it is, and costs
// nothing.
func TestBunkerRefuses(t *testing.T) {
	w := newWorld(t)
	w.Write(t, "job.json", rankJob)
	w.Sell(t)
	show := w.Start(t, "keys", "show", "--role", "provider", "--json")
	show.Ended(t)
	var keys []struct{ PubKey string }
	if err := json.Unmarshal([]byte(show.Out.Text()), &keys); err != nil || len(keys) != 1 {
		t.Fatalf("keys show: %v", err)
	}
	_, address, _ := bunker(t, w, "5050")
	connect(t, w, "buyer", address)
	p := submit(t, w, keys[0].PubKey, "prepay")
	if code := p.Ended(t); code == 0 || !strings.Contains(p.Errs.Text(), "the remote signer refuses sign_event: kind 5050 is not for you") {
		t.Errorf("exit code %d", code)
	}
	list := w.Start(t, "buyer", "list", "--json")
	if code := list.Ended(t); code != 0 || strings.Contains(list.Out.Text(), "request_id") {
		t.Errorf("exit code %d; something was bought: %s", code, list.Out.Text())
	}
}
