package publish

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/nbd-wtf/go-nostr"
)

// Whatever is signed has one domain, and no tag that was copied chooses it.
func TestSigningGivesOneDomain(t *testing.T) {
	p := &Publisher{cfg: Config{SignLater: true}, private: &private{key: strings.Repeat("a", 64)}}
	for _, copied := range []nostr.Tags{{{"domain", string(domain.Receipt)}}, {{"domain"}}, {{"domain", "x", "y"}}} {
		if ev, err := p.Sign(t.Context(), 6050, domain.Result, copied, ""); err == nil {
			t.Errorf("signed with %v", ev.Tags)
		}
	}
	tags := make(nostr.Tags, 1, 8)
	tags[0] = nostr.Tag{"i", "domain", "text"}
	for _, d := range domain.All() {
		ev, err := p.Sign(t.Context(), 1, d, tags, "")
		if err != nil || domain.Demand(d, ev.Tags) != nil || len(tags) != 1 {
			raw, _ := json.Marshal(ev)
			t.Errorf("%s: %s, %v", d, raw, err)
		}
	}
}
