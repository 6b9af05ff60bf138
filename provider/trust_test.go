package provider_test

import (
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/relay"
)

// follow publishes the key's list of whom it follows, dated so many seconds ago.
func (s *shop) follow(key *relay.Key, ago int, whom ...string) {
	s.t.Helper()
	ev := nostr.Event{Kind: 3, CreatedAt: nostr.Timestamp(time.Now().Unix() - int64(ago))}
	for _, w := range whom {
		ev.Tags = append(ev.Tags, nostr.Tag{"p", w})
	}
	markettest.Check(s.t, key.Sign(s.t.Context(), &ev))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored = append(s.stored, ev)
}

// TestTrustByFollows: whom the operator follows may buy, with follows2 also whom
// those follow, and nobody because of what strangers or those two steps away say.
func TestTrustByFollows(t *testing.T) {
	for trust, second := range map[provider.Trust]bool{provider.TrustFollows: false, provider.TrustFollows2: true} {
		t.Run(string(trust), func(t *testing.T) {
			owner, friend, second2, third, denied, stranger, allowed := markettest.NewKey(t), markettest.NewKey(t), markettest.NewKey(t), markettest.NewKey(t), markettest.NewKey(t), markettest.NewKey(t), markettest.NewKey(t)
			s := openShop(t, func(cfg *provider.Config) {
				cfg.Access = provider.Access{
					Trust: trust, Of: []string{owner.PublicKey()}, Deny: []string{denied.PublicKey()}, Allow: []string{allowed.PublicKey()},
				}
			})
			s.follow(owner, 60, stranger.PublicKey()) // an older list counts no more
			s.follow(owner, 10, friend.PublicKey(), denied.PublicKey(), "no key")
			s.follow(friend, 10, second2.PublicKey(), "")
			s.follow(second2, 10, third.PublicKey())
			s.follow(stranger, 10, stranger.PublicKey(), owner.PublicKey())

			s.wantQuote(s.requestOf(friend, nil))
			s.wantQuote(s.requestOf(allowed, nil))
			for _, key := range []*relay.Key{third, denied, stranger} {
				s.wantRefusal(s.requestOf(key, nil), provider.CodeNotAllowed)
			}
			if second {
				s.wantQuote(s.requestOf(second2, nil))
			} else {
				s.wantRefusal(s.requestOf(second2, nil), provider.CodeNotAllowed)
			}
		})
	}
}
