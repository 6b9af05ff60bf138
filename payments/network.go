package payments

import (
	"fmt"
	"strings"
)

// Network is the chain, the play-money ledger, or the Cashu mint that a wallet
// lives on. A mint's is "cashu:" and where it is: cashu:mint.example.com. A
// wallet that pays by transactions on the chain has chain:mainnet and the like.
type Network string

// The networks. Play is the ledger of payments/playnet: nothing there is
// worth anything.
const (
	Mainnet Network = "mainnet"
	Testnet Network = "testnet"
	Signet  Network = "signet"
	Regtest Network = "regtest"
	Simnet  Network = "simnet"
	Play    Network = "play"
)

// ParseNetwork reads a network's name.
func ParseNetwork(s string) (Network, error) {
	switch n := Network(s); n {
	case Mainnet, Testnet, Signet, Regtest, Simnet, Play:
		return n, nil
	}
	if mint, ok := strings.CutPrefix(s, cashuPrefix); ok {
		return CashuNetwork(mint)
	}
	if _, ok := Network(s).Chain(); ok {
		return Network(s), nil
	}
	return "", fmt.Errorf("%w: unknown network %q", ErrWrongNetwork, s)
}

// AssetID says what money a receipt of the network was paid in: BTC_LN for
// mainnet alone, BTC_LN(simnet) and the like for money without a price,
// BTC_CASHU(mint.example.com) for what that mint promises, and PLAY_LN for the
// play-money ledger; BTC_CHAIN and BTC_CHAIN(simnet) likewise for transactions
// on the chain. No other string can be taken for BTC_LN.
func AssetID(n Network) string {
	if mint, ok := n.CashuMint(); ok {
		return "BTC_CASHU(" + mint + ")"
	}

	switch n {
	case Mainnet.OnChain():
		return "BTC_CHAIN"
	case Mainnet:
		return "BTC_LN"
	case Play:
		return "PLAY_LN"
	default:
		if of, ok := n.Chain(); ok {
			return "BTC_CHAIN(" + string(of) + ")"
		}
		return "BTC_LN(" + string(n) + ")"
	}
}
