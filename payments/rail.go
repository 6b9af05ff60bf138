package payments

// Rail is how money moves, by the word that receipts have for it.
type Rail string

// The rails. A play-money ledger makes invoices and so counts as Lightning. No backend
// here moves Taproot Assets.
const (
	RailLightning     Rail = "lightning"
	RailCashu         Rail = "cashu"
	RailOnChain       Rail = "onchain"
	RailTaprootAssets Rail = "taproot_assets"
)

// Rail is what the network's money moves on.
func (n Network) Rail() Rail {
	if _, ok := n.CashuMint(); ok {
		return RailCashu
	}
	if _, ok := n.Chain(); ok {
		return RailOnChain
	}
	return RailLightning
}

// Rail is what the wallet's money moves on.
func (n Node) Rail() Rail { return n.Network.Rail() }
