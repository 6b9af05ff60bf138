package health

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/config"
)

// TestDoctorClock: what is said of the clock has its own next step, whichever
// relay answers first.
func TestDoctorClock(t *testing.T) {
	relayAt := func(apart time.Duration) string {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(apart).UTC().Format(http.TimeFormat))
			fmt.Fprint(w, "{}")
		}))
		t.Cleanup(server.Close)
		return "ws" + strings.TrimPrefix(server.URL, "http")
	}
	right, wrong, away := relayAt(0), relayAt(-time.Hour), "ws://127.0.0.1:1"
	for _, c := range []struct {
		name               string
		relays             []string
		state, detail, fix string
	}{
		{"no answer", []string{away}, "warn", "no relay told the time", "once a relay answers"},
		{"apart", []string{wrong}, "warn", "apart from " + wrong, "set this machine's clock"},
		{"apart from the first", []string{wrong, right}, "warn", "apart from " + wrong, "set this machine's clock"},
		{"apart from the last", []string{right, wrong}, "warn", "apart from " + wrong, "set this machine's clock"},
		{"right", []string{right}, "ok", "within", ""},
		{"right, and one is away", []string{away, right}, "ok", "within", ""},
	} {
		found := Finding{}
		for _, f := range CheckRelays(t.Context(), &config.Config{Relays: c.relays}) {
			if f.Check == "clock" {
				found = f
			}
		}
		if found.State != c.state || !strings.Contains(found.Detail, c.detail) || !strings.Contains(found.Fix, c.fix) {
			t.Errorf("%s: %+v", c.name, found)
		}
	}
}
