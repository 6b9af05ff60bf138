package nostr_test

import (
	"encoding/json"
	"strings"
	"testing"
)

const rankJob = `{"user_task":"which fruit is yellow","candidates":[{"id":"sky","content":"the sky is blue"},` +
	`{"id":"fruit","content":"the banana is a yellow fruit"}],"k":1,"verification":{"mode":"subjective"}}`

// TestSell: our buyer buys from providers written with other libraries.
func TestSell(t *testing.T) {
	w := newWorld(t)
	w.write(t, "job.json", rankJob)
	for _, client := range []string{"ndk", "nostr-tools"} {
		t.Run(client, func(t *testing.T) {
			seller := outside(t, client+"/sell.mjs", w.options("name", client+"-seller"))
			seller.await(t, &seller.out, `"selling"`)
			key := said(t, seller.out.text())[0]["pubkey"].(string)
			t.Run("free", func(t *testing.T) { sellFree(t, w, key) })
			t.Run("prepay", func(t *testing.T) { sellPrepaid(t, w, seller, key) })
		})
	}
}

func sellFree(t *testing.T, w *world, key string) {
	p := w.submit(t, key, "free")
	if code := p.ended(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	var done struct{ State, Provider string }
	if err := json.Unmarshal([]byte(p.out.text()), &done); err != nil || done.State != "done" || done.Provider != key {
		t.Errorf("%+v, %v: %s", done, err, p.out.text())
	}
}

// sellPrepaid: the buyer pays and has the result. The purchase ends without a
// receipt, which is no part of NIP-90 and which no outside provider signs; exit
// code 4 says so.
func sellPrepaid(t *testing.T, w *world, seller *process, key string) {
	p := w.submit(t, key, "prepay")
	p.await(t, &p.errs, "delivers the result")
	seller.await(t, &seller.out, `"earned"`)
	if code := p.ended(t); code != 4 {
		t.Errorf("exit code %d, want 4", code)
	}
	var done struct {
		State, Reason string
	}
	if err := json.Unmarshal([]byte(p.out.text()), &done); err != nil || done.State != "done" || !strings.Contains(done.Reason, "without receipt") {
		t.Errorf("%+v, %v", done, err)
	}
}

func (w *world) submit(t *testing.T, provider, mode string) *process {
	t.Helper()
	return w.start(t, "buyer", "submit", "--provider", provider, "--schema", "oa.retrieval_rerank.v1",
		"--input", "job.json", "--mode", mode, "--max-msats", "10000", "--json")
}
