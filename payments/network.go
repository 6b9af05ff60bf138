package payments

import (
	"fmt"
	"strings"
)

// Network is where a wallet's money is: a chain (for Lightning), a play-money ledger, a
// Cashu mint such as cashu:mint.example.com (see [CashuNetwork]), or, for a wallet that
// pays by transactions on the chain, chain:mainnet and the like (see [Network.OnChain]).
type Network string

// The networks. [Play] is the ledger of payments/playnet, whose money is worth nothing.
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

// AssetID names the money of a network in receipts: BTC_LN for mainnet only,
// BTC_LN(simnet) and the like for test money, BTC_CASHU(mint.example.com) for the
// promises of that mint, BTC_CHAIN and BTC_CHAIN(simnet) for transactions on the chain,
// and PLAY_LN for the play-money ledger. Only real money is called BTC_LN.
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
