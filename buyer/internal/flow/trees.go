package flow

import (
	"context"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/text"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/market/tree"
)

// roomServers bounds the blob servers that a provider may name, and roomAddress each.
const (
	roomServers = 8
	roomAddress = 300
)

// send uploads the purchase's tree, for which the provider says that it waits. It says so
// again while chunks are missing, so what fails now is tried again then, and after a
// restart: the servers are asked for each chunk before it is sent.
func (f *Follower) send(ctx context.Context, p purchase.View, room nostr.Tag) error {
	m := p.Terms.Tree()
	f.heard.unchanged = true
	switch {
	case m == nil || f.Trees == nil || f.sending || p.Cancel != nil || len(room) < 4 || len(room) > 3+roomServers:
		return nil
	case p.Attempt == nil && m.Stored() > tree.UnpaidBytes:
		return nil // nobody may have us send that much before the job is paid for
	}
	for _, server := range room[3:] {
		if len(server) > roomAddress {
			return nil
		}
	}

	g, err := f.Grant(ctx, p)
	if err != nil {
		f.say("buyer", "upload_failed", 0, "", text.Clean(err.Error()))
		return nil
	}
	f.sending = true
	news := upload{of: int64(len(m.Chunks)), total: m.Stored()}
	f.g.Go(func() error {
		tell := func(u upload) {
			select {
			case f.sent <- u:
			case <-ctx.Done():
			}
		}
		err := f.Trees.Send(ctx, room[3:], m, g, f.id, func(chunks, bytes int64) {
			u := news
			u.chunks, u.bytes = chunks, bytes
			tell(u)
		})
		news.over, news.err = true, err
		tell(news)
		return nil
	})
	return nil
}

// Grant reads back what the request tells the provider alone: both can read it.
func (f *Flow) Grant(ctx context.Context, p purchase.View) (tree.Grant, error) {
	if f.Author.Cipher == nil || p.Terms.TreeKey == "" {
		return tree.Grant{}, fmt.Errorf("the key of the files cannot be read with this key")
	}
	doc, err := f.Author.Cipher.NIP44Decrypt(ctx, p.Provider, p.Terms.TreeKey)
	if err != nil {
		return tree.Grant{}, fmt.Errorf("read the key of the files: %w", err)
	}
	return tree.ParseGrant([]byte(doc))
}

// tell says how far an upload is, or why it stopped.
func (u upload) tell(say func(who, what string, msats int64, hash, text string)) {
	const mib = 1 << 20
	switch {
	case !u.over:
		say("buyer", "uploads", 0, "", fmt.Sprintf("%d of %d chunks, %.1f of %.1f MiB", u.chunks, u.of, float64(u.bytes)/mib, float64(u.total)/mib))
	case u.err != nil:
		say("buyer", "upload_failed", 0, "", text.Clean(strings.ReplaceAll(u.err.Error(), "\n", "; ")))
	}
}
