package health

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/errgroup"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/relay"
)

// checkGiftWraps asks a relay for gift wraps to this node, which many a relay
// serves only to those who prove their key (NIP-42). A relay behind a proxy that
// was not told its own name refuses every proof; then no payment in notes arrives,
// and nothing else shows why. The zero finding is that of a relay that answers.
func checkGiftWraps(ctx context.Context, c *config.Config, url string) Finding {
	err := askForWraps(ctx, c, url)
	if err == nil {
		return Finding{}
	}
	f := Finding{
		"relay", "warn", fmt.Sprintf("%s does not serve gift wraps, in which payments in Cashu notes arrive: %s", url, strings.TrimPrefix(err.Error(), "query: "+url+": ")),
		"name another under relays if you deal in Cashu notes",
	}
	if errors.Is(err, relay.ErrAuth) {
		f.Fix = "if the relay is yours and a proxy is before it, set relay.public_url there to http" + strings.TrimPrefix(url, "ws") + "; else name another under relays"
	}
	if c.Provider.Wallet.Backend == "cashu" {
		f.State = "fail"
	}
	return f
}

// askForWraps proves the provider's key, as the node does, where its file has it
// open, and else some key: a locked one is not asked for here.
func askForWraps(ctx context.Context, c *config.Config, url string) error {
	signer, err := relay.GenerateKey()
	if err != nil {
		return err
	}
	if own, ok := openKey(c); ok {
		signer = own
	}

	pool, err := relay.NewPool(relay.Config{URLs: []string{url}, Signer: signer, QueryTimeout: relayTimeout})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, 2*relayTimeout)
	var g errgroup.Group
	g.Go(func() error { return pool.Serve(ctx) })
	_, err = pool.Query(ctx, nostr.Filter{Kinds: []int{kinds.GiftWrap}, Tags: nostr.TagMap{"p": {signer.PublicKey()}}, Limit: 1})
	stop()
	return errors.Join(err, g.Wait())
}

// openKey is the provider's key, where its file has it open.
func openKey(c *config.Config) (*relay.Key, bool) {
	k, err := keys.Read(c, "provider")
	if err != nil || k.Kept != keys.KeptPlain {
		return nil, false
	}
	own, err := relay.ParseKey(k.Text)
	return own, err == nil
}
