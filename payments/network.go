package payments

import "fmt"

// Network is the chain, or the play-money ledger, that a wallet lives on.
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
	return "", fmt.Errorf("%w: unknown network %q", ErrWrongNetwork, s)
}

// AssetID says what money a receipt of the network was paid in: BTC_LN for
// mainnet alone, BTC_LN(simnet) and the like for money without a price, and
// PLAY_LN for the play-money ledger. No other string can be taken for BTC_LN.
func AssetID(n Network) string {
	switch n {
	case Mainnet:
		return "BTC_LN"
	case Play:
		return "PLAY_LN"
	default:
		return "BTC_LN(" + string(n) + ")"
	}
}

// ChainAssetID says likewise what money a payment on the chain was: BTC_CHAIN for
// mainnet alone, BTC_CHAIN(simnet) and the like for the others.
func ChainAssetID(n Network) string {
	if n == Mainnet {
		return "BTC_CHAIN"
	}
	return "BTC_CHAIN(" + string(n) + ")"
}
