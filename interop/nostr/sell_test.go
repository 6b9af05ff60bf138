package nostr_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/interop/outside"
)

const rankJob = `{"user_task":"which fruit is yellow","candidates":[{"id":"sky","content":"the sky is blue"},` +
	`{"id":"fruit","content":"the banana is a yellow fruit"}],"k":1,"verification":{"mode":"subjective"}}`

// TestSell: our buyer buys from providers written with other libraries.
func TestSell(t *testing.T) {
	w := newWorld(t)
	w.Write(t, "job.json", rankJob)
	for _, client := range []string{"ndk", "nostr-tools"} {
		t.Run(client, func(t *testing.T) {
			seller := outside.Node(t, client+"/sell.mjs", w.Options("name", client+"-seller"))
			seller.Await(t, &seller.Out, `"selling"`)
			key := outside.Lines(t, seller.Out.Text())[0]["pubkey"].(string)
			t.Run("free", func(t *testing.T) { sellFree(t, w, key) })
			t.Run("prepay", func(t *testing.T) { sellPrepaid(t, w, seller, key) })
		})
	}
}

func sellFree(t *testing.T, w *outside.World, key string) {
	p := submit(t, w, key, "free")
	if code := p.Ended(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var done struct{ State, Provider string }
	if err := json.Unmarshal([]byte(p.Out.Text()), &done); err != nil || done.State != "done" || done.Provider != key {
		t.Errorf("%+v, %v: %s", done, err, p.Out.Text())
	}
}

// sellPrepaid: the buyer pays and has the result. The purchase ends without a
// receipt, which is no part of NIP-90 and which no outside provider signs; exit
// code 4 says so.
func sellPrepaid(t *testing.T, w *outside.World, seller *outside.Process, key string) {
	p := submit(t, w, key, "prepay")
	p.Await(t, &p.Errs, "delivers the result")
	seller.Await(t, &seller.Out, `"earned"`)
	if code := p.Ended(t); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	var done struct {
		State, Reason string
	}
	if err := json.Unmarshal([]byte(p.Out.Text()), &done); err != nil || done.State != "done" || !strings.Contains(done.Reason, "without receipt") {
		t.Errorf("%+v, %v", done, err)
	}
}

func submit(t *testing.T, w *outside.World, provider, mode string) *outside.Process {
	t.Helper()
	return w.Start(t, "buyer", "submit", "--provider", provider, "--schema", "oa.retrieval_rerank.v1",
		"--input", "job.json", "--mode", mode, "--max-msats", "10000", "--json")
}
