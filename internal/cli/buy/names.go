package buy

import (
	"context"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/nip05"
)

// named is the flag that shows providers by the names that their domains vouch for.
// Without it no domain is asked: it would learn who looks at which provider.
type named struct {
	Names bool `help:"Show the names that providers' own domains vouch for (NIP-05), and no other. Each of these domains is asked, and learns this machine's address and whom you look at."`
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
