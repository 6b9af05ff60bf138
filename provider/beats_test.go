package provider

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lightwork-market/lightwork/provider/internal/admission"
	"github.com/lightwork-market/lightwork/provider/internal/announce"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
	"github.com/nbd-wtf/go-nostr"
)

// unsigning is a key that is elsewhere.
type unsigning string

func (k unsigning) PublicKey() string { return string(k) }

func (unsigning) Sign(context.Context, *nostr.Event) error { return errors.New("it is elsewhere") }

// placed is a market of one relay.
type placed struct{ Market }

func (placed) Relays() []string { return []string{"wss://relay.example"} }

// A relay that sends our own beats again, however old, does not make us believe that
// another node sells with our key. A beat of another node's does.
func TestOldBeatsOfOursAreNoOtherNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var why []string
		key := unsigning(strings.Repeat("a", 64))
		pub := publish.New(publish.Config{Signer: key, SignLater: true, Market: placed{}})
		p := &Provider{
			gate:      admission.New(admission.Config{CannotDeliver: func() bool { return false }}),
			announcer: announce.New(announce.Config{Key: key.PublicKey(), Publisher: pub}),
			cfg:       Config{Pause: func(because string) error { why = append(why, because); return ErrNotFound }},
			key:       key.PublicKey(), began: time.Now(), log: slog.New(slog.DiscardHandler),
		}
		var said []nostr.Event
		for range 24 * int(time.Hour/announce.BeatEvery) {
			time.Sleep(announce.BeatEvery)
			ev, err := p.announcer.Beat(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, ev)
			p.own(t.Context(), ev)
		}
		for _, ev := range said {
			p.own(t.Context(), ev)
		}
		if why != nil {
			t.Errorf("its own beats paused it: %q", why)
		}

		another := said[len(said)-1]
		another.ID = strings.Repeat("b", 64)
		if p.own(t.Context(), another); len(why) != 1 {
			t.Errorf("another node's beat paused it %d times", len(why))
		}
	})
}
