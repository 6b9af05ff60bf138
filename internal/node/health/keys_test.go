package health

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/nip05"
	"github.com/lightwork-market/lightwork/relay"
)

// verifierAt asks that server whatever host a name has.
func verifierAt(t *testing.T, server *httptest.Server) *nip05.Verifier {
	t.Helper()
	client := server.Client()
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	return nip05.New(nip05.Config{Client: client, CacheFile: filepath.Join(t.TempDir(), "nip05.json")})
}

// TestCheckName: lightwork doctor says to who sells under a name whether the name's
// domain vouches for the provider's key, and what the domain has to serve. Where there
// is nothing to look at, no domain is asked.
func TestCheckName(t *testing.T) {
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "provider.key")
	if err := key.WriteFile(file); err != nil {
		t.Fatal(err)
	}
	document := fmt.Sprintf(`{"names":{"bob":%q}}`, key.PublicKey())
	other := fmt.Sprintf(`{"names":{"bob":%q}}`, strings.Repeat("1", 64))

	for what, k := range map[string]struct {
		change func(*config.Config)
		answer string
		state  string // "" if nothing is found
		detail string
	}{
		"vouched for":  {answer: document, state: "ok", detail: "bob@example.com, and its domain vouches for it"},
		"another key":  {answer: other, state: "warn", detail: "nobody is shown bob@example.com: the host vouches for no such key"},
		"no answer":    {state: "warn", detail: "nobody is shown bob@example.com: the host of the name answers 404"},
		"no name":      {change: func(c *config.Config) { c.Provider.NIP05 = "" }},
		"no provider":  {change: func(c *config.Config) { c.Provider.Offers = nil }},
		"no key there": {change: func(c *config.Config) { c.Identity.ProviderKeyFile += ".gone" }},
	} {
		t.Run(what, func(t *testing.T) {
			asked := false
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked = true
				if k.answer == "" {
					http.NotFound(w, r)
				}
				fmt.Fprint(w, k.answer)
			}))
			t.Cleanup(server.Close)
			c := &config.Config{Provider: config.Provider{NIP05: "bob@example.com", Offers: []config.Offer{{}}}}
			c.Identity.ProviderKeyFile = file
			if k.change != nil {
				k.change(c)
			}

			found := CheckName(t.Context(), c, verifierAt(t, server))
			if k.state == "" {
				if len(found) > 0 || asked {
					t.Errorf("asked: %v, found %+v", asked, found)
				}
				return
			}
			if len(found) != 1 || found[0].Check != "provider name" || found[0].State != k.state || !strings.HasPrefix(found[0].Detail, k.detail) {
				t.Fatalf("%+v, want %s: %s", found, k.state, k.detail)
			}
			if serve := "https://example.com/.well-known/nostr.json with " + document; strings.Contains(found[0].Fix, serve) != (k.state == "warn") {
				t.Errorf("the remedy is %q", found[0].Fix)
			}
		})
	}
}
