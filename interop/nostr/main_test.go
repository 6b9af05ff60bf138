// Package nostr_test lets unmodified Nostr clients and relays meet a running
// Lightwork: they buy from its provider, sell to its buyer, read its relay, and
// serve its client. All of it is on loopback and in play money.
package nostr_test

import (
	"os"
	"testing"

	"github.com/lightwork-market/lightwork/interop/outside"
)

// program is the real lightwork, built once for all tests.
var program string

func TestMain(m *testing.M) { os.Exit(outside.Main(m, &program)) }

// newWorld is a market in which ranking costs 2000 msats.
func newWorld(t *testing.T) *outside.World {
	t.Helper()
	return outside.NewWorld(t, program, "    - schema: oa.retrieval_rerank.v1\n      modes: [prepay, free]\n      base_msats: 2000\n",
		"\nrelay:\n", "\nrelay:\n  uploaders: [\"*\"]\n") // a provider whose key a bunker holds is no owner
}
