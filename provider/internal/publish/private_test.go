package publish

import (
	"context"
	"log/slog"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// openCipher hides nothing.
type openCipher struct{ Cipher }

func (openCipher) NIP44Decrypt(_ context.Context, _, hidden string) (string, error) {
	return hidden, nil
}

// TestHiddenTagsAreReadStrictly: a dispute discloses the hidden tags in these bytes, so
// what a judge cannot read is no request.
func TestHiddenTagsAreReadStrictly(t *testing.T) {
	p := New(Config{Market: willing{}, Cipher: openCipher{}, Log: slog.New(slog.DiscardHandler)})
	request := nostr.Event{Tags: nostr.Tags{{"p", p.key}, {"encrypted"}}}

	request.Content = `[["i","what to do"]]`
	if view, err := p.DecryptRequest(t.Context(), request); err != nil || view.Tags.Find("i") == nil {
		t.Errorf("%v, %v", view.Tags, err)
	}

	for _, request.Content = range []string{`[["i","\ud800"]]`, `[["i","` + "\xff" + `"]]`, `[["i",7]]`, `{"i":"x"}`, `[["i","x"]] []`} {
		if view, err := p.DecryptRequest(t.Context(), request); err == nil {
			t.Errorf("%q is read as %v", request.Content, view.Tags)
		}
	}
}
