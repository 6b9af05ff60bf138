//go:build tools

// Package mint pins the version of the Cashu mint for tests. It is a separate
// module, also from the Lightning programs, because the mint needs another version
// of lnd; nothing imports it.
package mint

import _ "github.com/elnosh/gonuts/cmd/mint"
