package config

import (
	"fmt"
)

// Side is whose side of the market a command is about: "provider", "buyer", or
// "" where nobody said.
type Side string

// Of is the role that was named, or the one of a configuration's only wallet.
// With two wallets, or none, it is the buyer: who sells runs a node, and who
// types these commands more often buys.
func (s Side) Of(c *Config) string {
	switch {
	case s != "":
		return string(s)
	case c.Buyer.Wallet.None() && !c.Provider.Wallet.None():
		return "provider"
	}
	return "buyer"
}

// UnmarshalText reads --role.
func (s *Side) UnmarshalText(text []byte) error {
	if *s = Side(text); *s != "provider" && *s != "buyer" {
		return fmt.Errorf("must be provider or buyer, not %q", text)
	}
	return nil
}
