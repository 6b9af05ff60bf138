package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

const (
	maxToolName = 128
	hashDigits  = 8
)

// toolNames maps the server's names, all distinct, to names of the runtime
// protocol. A name that is valid there is kept. In other names, characters that are
// not allowed become "_", and if the result is taken or too long, a hash of the
// server's name is appended. The result for a name does not depend on the order.
func toolNames(names []string) map[string]string {
	claims := map[string]int{}
	for _, name := range names {
		claims[plainName(name)]++
	}

	out := make(map[string]string, len(names))
	for _, name := range names {
		plain := plainName(name)
		if !wire.ValidToolName(name) && (claims[plain] > 1 || len(plain) > maxToolName) {
			plain = hashedName(plain, name)
		}
		out[name] = plain
	}

	return out
}

// plainName replaces characters that the grammar does not allow. The result may be
// too long.
func plainName(name string) string {
	if wire.ValidToolName(name) {
		return name
	}
	plain := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', strings.ContainsRune("._-", r):
			return r
		}
		return '_'
	}, name)
	if plain == "" || strings.ContainsAny(plain[:1], ".-") {
		plain = "_" + plain
	}
	return plain
}

func hashedName(plain, name string) string {
	sum := sha256.Sum256([]byte(name))
	plain = plain[:min(len(plain), maxToolName-1-hashDigits)]
	return plain + "-" + hex.EncodeToString(sum[:])[:hashDigits]
}
