package nwc

import (
	"testing"

	"github.com/lightwork-market/lightwork/payments/conformance"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// TestConformance runs every behaviour of a wallet backend through both sides:
// a client, a relay, a service, and play money behind it.
func TestConformance(t *testing.T) {
	url := startRelay(t)
	l := openLedger(t, playnet.Config{FeeMsats: 7})
	clients := map[string]*Client{}
	for _, name := range []string{"payee", "payer"} {
		a, conn := newApp(t, url)
		startService(t, url, openWallet(t, l, name), a)
		clients[name] = startClient(t, Config{Connection: conn})
	}
	pair := conformance.Pair{Payee: clients["payee"], Payer: clients["payer"], FeeMsats: 7}
	conformance.Run(t, func(t *testing.T) conformance.Pair { return pair })
}
