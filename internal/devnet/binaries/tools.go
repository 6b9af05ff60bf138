//go:build tools

// Package binaries pins the versions of the Lightning programs for the development
// network. It is a separate module, to keep them out of the product's requirements;
// nothing imports it.
package binaries

import (
	_ "github.com/btcsuite/btcd"
	_ "github.com/lightningnetwork/lnd/cmd/lncli"
	_ "github.com/lightningnetwork/lnd/cmd/lnd"
)
