//go:build tools

// Package binaries pins the Lightning programs that the development network
// runs. It is a module of its own so that they stay out of the product's
// requirements; nothing imports it.
package binaries

import (
	_ "github.com/btcsuite/btcd"
	_ "github.com/lightningnetwork/lnd/cmd/lncli"
	_ "github.com/lightningnetwork/lnd/cmd/lnd"
)
