package node

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/relay/server"
)

// TestRelayKeepsReceipts: no rule of age or number is about the events of receipts, and
// one that refuses is.
func TestRelayKeepsReceipts(t *testing.T) {
	refuse := config.Retention{Kinds: []config.KindRange{{First: 7000, Last: 7009}}, Refuse: true}
	limit := config.Retention{MaxAge: time.Hour}
	receipts := server.Retention{Kinds: []server.KindRange{{First: 7002, Last: 7002}}}
	for name, c := range map[string]struct {
		rules []config.Retention
		at    int // of the rule on receipts
	}{
		"none": {nil, -1}, "refused": {[]config.Retention{refuse}, -1},
		"limited": {[]config.Retention{limit}, 0}, "refused, then limited": {[]config.Retention{refuse, limit}, 1},
		"counted": {[]config.Retention{{MaxCount: 5}, refuse}, 0},
	} {
		got := relayServer(&config.Relay{Retention: c.rules}).Retention
		if c.at < 0 {
			if len(got) != len(c.rules) {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if len(got) != len(c.rules)+1 || !cmp.Equal(got[c.at], receipts) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
