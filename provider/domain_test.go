package provider

import (
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider/internal/announce"
	"github.com/lightwork-market/lightwork/provider/internal/deliver"
	"github.com/lightwork-market/lightwork/provider/internal/intake"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/lightwork-market/lightwork/provider/internal/restore"
	"github.com/lightwork-market/lightwork/receipts"
)

// What a buyer sends is read as the document that it says it is. Other programs know
// no domains: their requests and deletions name none.
func TestBuyersDocumentsAreToldApart(t *testing.T) {
	key := strings.Repeat("a", 64)
	someone, err := nostr.GetPublicKey(strings.Repeat("1", 64))
	if err != nil {
		t.Fatal(err)
	}
	closing, err := receipts.Closing{Version: receipts.Version, Results: []receipts.PanelResult{
		{Provider: someone, RequestID: key, ResultID: key},
	}}.Canonical()
	if err != nil {
		t.Fatal(err)
	}
	p := &Provider{key: key, announcer: announce.New(announce.Config{}), restored: restore.New(restore.Config{Key: key})}
	for name, c := range map[string]struct {
		own      domain.Domain
		optional bool
		read     func(tags nostr.Tags) bool
	}{
		"request": {domain.Request, true, func(tags nostr.Tags) bool {
			_, err := receipts.TermsOf(tags)
			return err == nil
		}},
		"deletion": {domain.Deletion, true, func(tags nostr.Tags) bool {
			return intake.IsCancellation(nostr.Event{Kind: kinds.Deletion, Tags: tags})
		}},
		"not taken": {domain.NotTaken, false, func(tags nostr.Tags) bool {
			return intake.IsCancellation(nostr.Event{Kind: kinds.NotTaken, Tags: tags})
		}},
		"closing": {domain.Closing, false, func(tags nostr.Tags) bool {
			ev := nostr.Event{Kind: kinds.Closing, Tags: tags, Content: string(closing)}
			check := ev // as relays hand it over: signed by somebody
			if err := check.Sign(strings.Repeat("1", 64)); err != nil {
				t.Fatal(err)
			}
			_, err := deliver.New(deliver.Config{Publisher: publish.New(publish.Config{Market: struct{ publish.Market }{}})}).ClosingOf(t.Context(), check)
			return err == nil
		}},
		"ping": {domain.Ping, true, func(tags nostr.Tags) bool {
			return p.isPing(nostr.Event{Kind: kinds.Ping, CreatedAt: nostr.Now(), Tags: tags})
		}},
		"beat of ours": {domain.Beat, false, func(tags nostr.Tags) bool {
			what, err := p.unsaid(t.Context(), nostr.Event{ID: key, Kind: kinds.Beat, CreatedAt: nostr.Now(), Tags: tags})
			return err == nil && what != ""
		}},
		"receipt of ours": {domain.Receipt, false, func(tags nostr.Tags) bool {
			return len(p.restored.Receipts(t.Context(), []nostr.Event{{Kind: kinds.Receipt, Tags: tags}})) == 1
		}},
	} {
		for _, d := range append(domain.All(), "") {
			tags := nostr.Tags{{"e", key}, {"p", key}}
			if d != "" {
				tags = append(tags, d.Tag())
			}
			if got, want := c.read(tags), d == c.own || d == "" && c.optional; got != want {
				t.Errorf("%q read as a %s: %v", d, name, got)
			}
		}
	}
}
