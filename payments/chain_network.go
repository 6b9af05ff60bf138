package payments

import "strings"

const chainPrefix = "chain:"

// MaxOutpoints bounds the listed outputs of one payment on the chain. The amounts of
// further outputs count too.
const MaxOutpoints = 16

// ChainPlan is an estimate of a payment to an address.
type ChainPlan struct {
	Address  string // as BIP 173 writes it
	Hash     Hash   // identifies the payment
	FeeMsats int64  // the present miners' fee, about
}

// OnChain is the network for transactions on the chain itself, such as chain:mainnet for
// [Mainnet]. A play-money ledger and a mint have none: "".
func (n Network) OnChain() Network {
	switch n {
	case Mainnet, Testnet, Signet, Regtest, Simnet:
		return chainPrefix + n
	}
	return ""
}

// Chain is the inverse of [Network.OnChain], and false for any other network. Invoices
// and nodes have that network.
func (n Network) Chain() (of Network, ok bool) {
	name, ok := strings.CutPrefix(string(n), chainPrefix)
	return Network(name), ok && Network(name).OnChain() == n
}
