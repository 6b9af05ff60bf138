package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// TestMistakesHaveAPlace: each value that cannot be used is shown with its file, line
// and column, all of them at once.
func TestMistakesHaveAPlace(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"version: 2\nrelays: [ws://127.0.0.1:7447]\n", "node.yaml:1:10: version: must be 1"},
		{"version: 1\nrelays: []\n", "node.yaml:2:9: relays: at least one relay is needed"},
		{"version: 1\nrelays: [http://r]\nnod: {}\n", "node.yaml:3:1: "},
		{"version: 1\nrelays: [http://r]\nblobs: [ftp://b]\n", "node.yaml:2:10: relays[0]: must be a ws:// or wss:// address"},
		{"version: 1\nrelays: [ws://r]\nbuyer: {wallet: {backend: play}}\n", "buyer.wallet.play: url and token_file are needed"},
		{"version: 1\nrelays: [ws://r]\nbuyer: {max_msats_per_day: -1}\n", "node.yaml:3:28: buyer.max_msats_per_day: cannot be negative"},
		{"version: 1\nrelays: [ws://r]\nprovider: {limits: {queue: 0}}\n", "must be more than 0; leave it out for the default"},
	} {
		_, err := Parse([]byte(c.text), "node.yaml")
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
		var coded *advice.Error
		if !errors.As(err, &coded) || coded.Code != advice.ExitUsage {
			t.Errorf("%q: %#v is no mistake of the user's", c.text, err)
		}
	}
	_, err := Parse([]byte("version: 1\nrelays: [http://r]\nblobs: [ftp://b]\n"), "node.yaml")
	if err == nil || !strings.Contains(err.Error(), "blobs[0]") {
		t.Errorf("the second mistake is not told: %v", err)
	}
}

// TestFilesThatAreNone: what is no configuration is told from one that is wrong.
func TestFilesThatAreNone(t *testing.T) {
	dir := t.TempDir()
	if _, err := Load(filepath.Join(dir, DefaultFile)); !errors.Is(err, ErrNone) {
		t.Errorf("no file: %v", err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "is a folder") {
		t.Errorf("a folder: %v", err)
	}
	large := filepath.Join(dir, "large.yaml")
	if err := os.WriteFile(large, make([]byte, maxSize+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(large); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("a large file: %v", err)
	}
}

// TestNewConfigurationsAreRead: the text of a new node can be read, whatever its
// wallets are, and says what it was made of.
func TestNewConfigurationsAreRead(t *testing.T) {
	for _, backend := range []string{"play", "lnd", "nwc", "cashu", BackendOnchain, "none"} {
		set := Setup{
			ProviderWallet: backend, BuyerWallet: "none", Relay: "ws://127.0.0.1:7450", PlayURL: "http://127.0.0.1:7448", Name: "a \"name\"", PerMinuteMsats: 2_000_000,
			Mint: "mint.example.com", ProviderLND: LND{Address: "127.0.0.1:10009", TLSCertFile: "c", MacaroonFile: "m"},
		}
		text, err := set.Text()
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(text, "/node/lightwork.yaml")
		if err != nil {
			t.Errorf("%s: %v", backend, err)
			continue
		}
		if c.Node.Name != set.Name || c.Provider.Wallet.Backend != backend || c.Relay.Listen != "127.0.0.1:7450" || !c.SellsSandboxOnly() || c.DataDir("buyer") != "/node/data/buyer" {
			t.Errorf("%s: %+v", backend, c)
		}
		if servers := c.BlobServers(); len(servers) != 1 || servers[0] != "http://127.0.0.1:7450" || !c.LocalBlobs() {
			t.Errorf("%s: blobs are at %v", backend, servers)
		}
	}
}

// TestSideOfTheOnlyWallet: where nobody says whose side is meant, it is that of the
// only wallet, and else the buyer's.
func TestSideOfTheOnlyWallet(t *testing.T) {
	play := Wallet{Backend: "play"}
	for _, c := range []struct {
		named           Side
		provider, buyer Wallet
		want            string
	}{
		{"", play, play, "buyer"},
		{"", play, Wallet{}, "provider"},
		{"", Wallet{}, play, "buyer"},
		{"", Wallet{}, Wallet{}, "buyer"},
		{"provider", Wallet{}, play, "provider"},
	} {
		conf := &Config{Provider: Provider{Wallet: c.provider}, Buyer: Buyer{Wallet: c.buyer}}
		if got := c.named.Of(conf); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	var s Side
	if err := s.UnmarshalText([]byte("seller")); err == nil {
		t.Error("a side that is none is taken")
	}
}

// TestKindRanges are a kind, or two of them in order.
func TestKindRanges(t *testing.T) {
	for text, want := range map[string]KindRange{"7": {7, 7}, "5000-6999": {5000, 6999}} {
		var k KindRange
		if err := k.UnmarshalText([]byte(text)); err != nil || k != want {
			t.Errorf("%s: %v, %v", text, k, err)
		}
	}
	for _, text := range []string{"", "-1", "2-1", "65536", "1-x"} {
		if err := new(KindRange).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

// TestNameInTheConfiguration: a name of another form than NIP-05's is refused with its
// place.
func TestNameInTheConfiguration(t *testing.T) {
	for name, taken := range map[string]bool{
		"me@example.com": true, "_@example.com": true, "": true,
		"me": false, "@example.com": false, "me@": false, "Me@example.com": false, "me+jobs@example.com": false, "me@example.com/x": false, "me@@example.com": false,
	} {
		doc := fmt.Sprintf("version: 1\nrelays: [wss://relay.example.com]\nprovider:\n  nip05: %q\n", name)
		c, err := Parse([]byte(doc), "lightwork.yaml")
		if !taken {
			if want := fmt.Sprintf("provider.nip05: must be a name such as me@example.com, in lower case, not %q", name); err == nil || !strings.Contains(err.Error(), "lightwork.yaml:4:10: "+want) {
				t.Errorf("%q: %v, want %s", name, err, want)
			}
			continue
		}
		if err != nil || c.Provider.NIP05 != name {
			t.Errorf("%q: %+v, %v", name, c, err)
		}
	}
}
