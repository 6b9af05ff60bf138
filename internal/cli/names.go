package cli

import (
	"context"
	"path/filepath"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/relay"
)

// named is the flag that shows providers by the names that their domains vouch for.
// Without it no domain is asked: it would learn who looks at which provider.
type named struct {
	Names bool `help:"Show the names that providers' own domains vouch for (NIP-05), and no other. Each of these domains is asked, and learns this machine's address and whom you look at."`
}

// names asks domains; what they say is kept with the buyer's data.
func (c *node) names() *nip05.Verifier {
	return nip05.New(nip05.Config{
		Client: relay.NewPublicClient(addressDial), CacheFile: filepath.Join(c.DataDir("buyer"), "nip05.json"),
	})
}

// of gives those of the listings a name, by [claim], that a domain vouches for.
func (n named) of(ctx context.Context, v *nip05.Verifier, all []buyer.Listing) map[nip05.Claim]bool {
	if !n.Names {
		return nil
	}

	var claims []nip05.Claim
	for _, l := range all {
		if l.NIP05 != "" {
			claims = append(claims, claim(l))
		}
	}
	return v.Verified(ctx, claims)
}

func claim(l buyer.Listing) nip05.Claim { return nip05.Claim{Name: l.NIP05, Key: l.Provider} }

// nameOf is the name of a listing as it is shown; "" if no domain vouches for it.
func nameOf(l buyer.Listing, verified map[nip05.Claim]bool) string {
	if !verified[claim(l)] {
		return ""
	}
	return nip05.Display(l.NIP05)
}

// checkName says whether the domain of the provider's own name vouches for its key, as
// buyers who look will find.
func checkName(ctx context.Context, c *config.Config, v *nip05.Verifier) []finding {
	if c.Provider.NIP05 == "" || !c.Sells() {
		return nil
	}
	key, err := readKey(c, "provider")
	if err != nil || key.public == "" {
		return nil // the check of keys says why
	}

	const check = "provider name"
	local, host, _ := nip05.Split(c.Provider.NIP05) // the configuration has no other
	if err := v.Verify(ctx, nip05.Claim{Name: c.Provider.NIP05, Key: key.public}); err != nil {
		return []finding{{
			check, "warn", "nobody is shown " + nip05.Display(c.Provider.NIP05) + ": " + err.Error(),
			"serve https://" + host + `/.well-known/nostr.json with {"names":{"` + local + `":"` + key.public + `"}}, without redirect, or leave provider.nip05 out`,
		}}
	}
	return []finding{{check, "ok", nip05.Display(c.Provider.NIP05) + ", and its domain vouches for it", ""}}
}
