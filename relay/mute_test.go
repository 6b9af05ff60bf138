package relay

import (
	"context"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// TestMuteRelay: a relay that lets a question pass takes its time only once, until
// it answers again, also too late.
func TestMuteRelay(t *testing.T) {
	live := startRelay(t)
	held := make(chan func(), 1) // the first question, which is answered at the test's word
	speaks := make(chan struct{})
	mute := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		if m.Label != nip01.LabelReq {
			return
		}
		select {
		case <-speaks:
			send(delivery(m.SubID, note(t, "mine alone", 0)))
			send(quoted("EOSE", m.SubID))
			return
		default:
		}
		select {
		case held <- func() { send(quoted("EOSE", m.SubID)) }:
		default:
		}
	})
	p := startPool(t, Config{URLs: []string{mute, live.url()}, QueryTimeout: time.Hour})
	publish(t, &Pool{cfg: p.cfg, links: p.links[1:]}, note(t, "everybody's", 0))
	ask := func(want int) {
		t.Helper()
		if list, err := p.Query(t.Context(), nostr.Filter{Kinds: []int{1}}); err != nil || len(list) != want {
			t.Fatalf("%d events, %v", len(list), err)
		}
	}

	waitFor(t, "a connection", func() bool { return p.links[0].status().State == StateConnected })
	for !p.links[0].silent.Load() {
		short, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		_, _ = p.Query(short, nostr.Filter{Kinds: []int{1}}) // under load neither may answer in time
		cancel()
	}
	ask(1) // or the hour would pass
	answer := <-held
	close(speaks)
	answer()
	waitFor(t, "the late answer", func() bool { return !p.links[0].silent.Load() })
	ask(2)
}
