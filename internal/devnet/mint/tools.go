//go:build tools

// Package mint pins the Cashu mint that tests run. It is a module of its own,
// apart from the Lightning programs too, because the mint wants another lnd
// than they are; nothing imports it.
package mint

import _ "github.com/elnosh/gonuts/cmd/mint"
