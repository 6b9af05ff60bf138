package health

import (
	"context"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/internal/node/keys"
)

// CheckName says whether the domain of the provider's own name vouches for its key, as
// buyers who look will find.
func CheckName(ctx context.Context, c *config.Config, v *nip05.Verifier) []Finding {
	if c.Provider.NIP05 == "" || !c.Sells() {
		return nil
	}
	key, err := keys.Read(c, "provider")
	if err != nil || key.Public == "" {
		return nil // the check of keys says why
	}

	const check = "provider name"
	local, host, _ := nip05.Split(c.Provider.NIP05) // the configuration has no other
	if err := v.Verify(ctx, nip05.Claim{Name: c.Provider.NIP05, Key: key.Public}); err != nil {
		return []Finding{{
			check, "warn", "nobody is shown " + nip05.Display(c.Provider.NIP05) + ": " + err.Error(),
			"serve https://" + host + `/.well-known/nostr.json with {"names":{"` + local + `":"` + key.Public + `"}}, without redirect, or leave provider.nip05 out`,
		}}
	}
	return []Finding{{check, "ok", nip05.Display(c.Provider.NIP05) + ", and its domain vouches for it", ""}}
}
