package abuse_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/interop/outside"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

const (
	rerank = "oa.retrieval_rerank.v1"
	price  = 2000          // msats, of any job of the world's provider
	faucet = 1_000_000_000 // msats, what a new play wallet has
	ranked = `{"user_task":"which fruit is yellow","candidates":[{"id":"sky","content":"the sky is blue"},` +
		`{"id":"fruit","content":"the banana is a yellow fruit"}],"k":1,"verification":{"mode":"subjective"}}`
)

// world is a node whose relay and ledger run.
type world struct {
	*outside.World
	node *outside.Process // the provider
}

// newWorld starts relay and ledger; the provider offers ranking for 2000 msats.
// change may alter the configuration.
func newWorld(t *testing.T, change ...string) *world {
	t.Helper()
	offers := "    - schema: " + rerank + "\n      modes: [prepay, hold, postpay, free]\n      base_msats: 2000\n" +
		"    - schema: oa.sandbox_run.v1\n      modes: [hold, postpay]\n      base_msats: 2000\n      per_minute_msats: 0\n"
	// Commands run at the firmest level of the machine: for an ordinary user, or in a container, that is less than full.
	change = append(change, "  # least_confinement: full\n", "  least_confinement: landlock\n")
	w := &world{World: outside.NewWorld(t, program, offers, change...)}
	w.Write(t, "job.json", ranked)
	return w
}

// sell starts the provider, waits until it is listed and returns its key.
func (w *world) sell(t *testing.T) (key string) {
	t.Helper()
	w.node = w.Sell(t)
	for end := time.Now().Add(outside.Patience); ; { // there may be relays that took it sooner than ours
		for _, l := range w.listings(t) {
			if l.Name != attackerName {
				return l.Provider
			}
		}
		if time.Now().After(end) {
			t.Fatal("the provider is not listed")
		}
	}
}

type listing struct{ Provider, Name string }

func (w *world) listings(t *testing.T) (list []listing) {
	t.Helper()
	doc, err := w.Lightwork("buyer", "discover", "--json").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(doc, &list); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	return list
}

// buy runs the buyer on the usual job.
func (w *world) buy(t *testing.T, provider, mode string, more ...string) *outside.Process {
	t.Helper()
	return w.Start(t, append([]string{
		"buyer", "submit", "--provider", provider, "--schema", rerank,
		"--input", "job.json", "--mode", mode, "--max-msats", "10000", "--json",
	}, more...)...)
}

// spendable is what is in the wallet of a role of the node, msats.
func (w *world) spendable(t *testing.T, role string) int64 {
	t.Helper()
	wallet, err := playnet.Dial(w.Ledger, strings.TrimSpace(w.Read(t, "keys/play-"+role+".token")))
	if err != nil {
		t.Fatal(err)
	}
	defer wallet.Close()
	b, err := wallet.Balance(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b.SpendableMsats
}
