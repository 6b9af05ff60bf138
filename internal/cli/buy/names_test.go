package buy

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/nip05"
)

// TestNames: a provider is shown by a name only where that is asked for and the name's
// own domain vouches for its key. Nobody is asked otherwise.
func TestNames(t *testing.T) {
	honest, liar := strings.Repeat("1", 64), strings.Repeat("2", 64)
	var asked atomic.Int32
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprintf(w, `{"names":{"bob":%q}}`, honest)
	}))
	t.Cleanup(server.Close)
	client := server.Client()
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
	v := nip05.New(nip05.Config{Client: client, CacheFile: filepath.Join(t.TempDir(), "nip05.json")})
	all := []buyer.Listing{
		{Provider: honest, NPub: "npub1honest", NIP05: "bob@example.com"},
		{Provider: liar, NPub: "npub1liar", NIP05: "bob@example.com"},
		{Provider: liar, NPub: "npub1plain"},
	}
	show := func(n named) string {
		names := n.of(t.Context(), v, all)
		var text strings.Builder
		for _, l := range all {
			showFound(&text, []foundView{{buyer.Found{Listing: l}, nameOf(l, names)}}, "")
			candidateView{NPub: l.NPub, NIP05: nameOf(l, names)}.show(&text)
		}
		return text.String()
	}

	if got := show(named{}); strings.Contains(got, "bob") || asked.Load() != 0 {
		t.Errorf("nobody asked for names, and domains were asked %d times:\n%s", asked.Load(), got)
	}
	got := show(named{Names: true})
	const line = "npub1honest\n  bob@example.com (NIP-05, its domain vouches for it)\n"
	if strings.Count(got, line) != 2 || strings.Count(got, "bob") != 2 || asked.Load() != 2 {
		t.Errorf("domains were asked %d times:\n%s", asked.Load(), got)
	}
}
