package payments

import "strings"

const chainPrefix = "chain:"

// MaxOutpoints of one payment on the chain are named; what paid besides is counted.
const MaxOutpoints = 16

// ChainPlan is what a payment to an address would be, before it is made.
type ChainPlan struct {
	Address  string // as BIP 173 writes it
	Hash     Hash   // what the payment is known by
	FeeMsats int64  // what the miners take now, about
}

// OnChain is the network whose money moves in transactions on the chain itself:
// chain:mainnet, of Mainnet. A play-money ledger and a mint have none: "".
func (n Network) OnChain() Network {
	switch n {
	case Mainnet, Testnet, Signet, Regtest, Simnet:
		return chainPrefix + n
	}
	return ""
}

// Chain is the network that an on-chain one is of; false for any other. Invoices
// and nodes are of that network.
func (n Network) Chain() (of Network, ok bool) {
	name, ok := strings.CutPrefix(string(n), chainPrefix)
	return Network(name), ok && Network(name).OnChain() == n
}
