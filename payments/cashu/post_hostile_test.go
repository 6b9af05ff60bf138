package cashu

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip44"
)

// What strangers address to the wallet's key is opened or not, and never more.
func TestWrapsOfStrangers(t *testing.T) {
	t.Parallel()
	p, err := NewPost(newSeed(t), []string{"ws://127.0.0.1:1"}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	stranger := nostr.GeneratePrivateKey()
	public, _ := nostr.GetPublicKey(stranger)
	key, err := nip44.GenerateConversationKey(p.PublicKey(), stranger)
	if err != nil {
		t.Fatal(err)
	}
	sealed := func(text string) string {
		out, err := nip44.Encrypt(text, key)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, content := range []string{
		"", "?", "A", strings.Repeat("A", 132), strings.Repeat("=", 200), strings.Repeat("A", 90_000),
		sealed("x"), sealed("null"), sealed("[]"), sealed(`{}`), sealed(`{"kind":13,"pubkey":"` + public + `","content":""}`),
		sealed(`{"kind":13,"pubkey":"zz","content":"` + sealed("{}") + `"}`),
		sealed(`{"kind":13,"pubkey":"` + public + `","content":"` + sealed(`{"kind":14,"content":"`+strings.Repeat("a", 1000)+`"}`) + `"}`),
		sealed(`{"kind":13,"pubkey":"` + strings.Repeat("f", 64) + `","content":"` + sealed(`null`) + `"}`),
		sealed(`{"tags":[null,[],[1]],"created_at":-1e400}`),
	} {
		ev := nostr.Event{Kind: kindWrap, Tags: nostr.Tags{{"p", p.PublicKey()}}, Content: content, CreatedAt: nostr.Now()}
		if err := ev.Sign(stranger); err != nil {
			t.Fatal(err)
		}
		if message, err := p.open(ev); err == nil {
			if _, _, err := parseMessage(message, "mint.example.com"); err == nil {
				t.Errorf("%.100s: taken for a payment", content)
			}
		}
	}
}
