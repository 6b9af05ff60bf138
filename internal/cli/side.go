package cli

import "fmt"

// side is whose side of the market a command is about: "provider", "buyer", or
// "" where nobody said.
type side string

// of is the role that was named, or the one of a configuration's only wallet.
// With two wallets, or none, it is the buyer: who sells runs a node, and who
// types these commands more often buys.
func (s side) of(c *config) string {
	switch {
	case s != "":
		return string(s)
	case c.Buyer.Wallet.none() && !c.Provider.Wallet.none():
		return "provider"
	}
	return "buyer"
}

// UnmarshalText reads --role.
func (s *side) UnmarshalText(text []byte) error {
	if *s = side(text); *s != "provider" && *s != "buyer" {
		return fmt.Errorf("must be provider or buyer, not %q", text)
	}
	return nil
}

// walletOf is the wallet of a role.
func (c *config) walletOf(role string) walletConfig {
	if role == "provider" {
		return c.Provider.Wallet
	}
	return c.Buyer.Wallet
}
