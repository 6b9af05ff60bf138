// Package abuse_test plays the attackers of the market: strangers with a
// WebSocket and a wallet who meet a running Lightwork. Relay, ledger, provider
// and buyer are processes of the real program, on loopback and in play money.
package abuse_test

import (
	"os"
	"testing"

	"github.com/lightwork-market/lightwork/interop/outside"
)

// program is the real lightwork, built once for all tests.
var program string

func TestMain(m *testing.M) { os.Exit(outside.Main(m, &program)) }
