package server

import (
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// authenticated is a client that has proved a key.
func (r *running) authenticated(secret string) *peer {
	r.t.Helper()
	p := r.dial()
	p.send(`["REQ","dm",{"kinds":[4]}]`)
	m := p.next()
	p.expect("CLOSED dm auth-required: events of kind 4 are for their author and those whom they name")
	ev := sign(r.t, secret, nostr.Event{Kind: 22242, Tags: nostr.Tags{{"relay", "ws://" + r.addr}, {"challenge", m.Text}}})
	p.send(`["AUTH",` + string(nip01.Marshal(&ev)) + `]`)
	p.expect("OK true ")
	return p
}

func TestPrivateEvents(t *testing.T) {
	r := start(t, Config{})
	const carolSecret = "7ee1c8000ab28edd64d74a7d951ac2dd559814887b1b9e1ac7c5f89e96125c12"
	stranger := r.dial()
	stranger.send(`["REQ","all",{}]`)
	stranger.expect("EOSE all")
	alice, bob, carol := r.authenticated(aliceSecret), r.authenticated(bobSecret), r.authenticated(carolSecret)
	for _, p := range []*peer{alice, bob, carol} {
		p.send(`["REQ","all",{"limit":0}]`)
		p.expect("EOSE all")
	}
	to := func(secret string) nostr.Tag { return nostr.Tag{"p", publicKey(t, secret)} }
	dm := sign(t, aliceSecret, nostr.Event{Kind: 4, Content: "dm", CreatedAt: ago(9), Tags: nostr.Tags{to(bobSecret)}})
	r.dial().put(dm) // anyone may bring it
	wrap := sign(t, carolSecret, nostr.Event{Kind: 1059, Content: "wrap", CreatedAt: ago(8), Tags: nostr.Tags{to(bobSecret)}})
	r.dial().put(wrap)
	r.dial().put(sign(t, carolSecret, nostr.Event{Kind: 21059, Content: "fleeting", Tags: nostr.Tags{to(aliceSecret)}}))
	r.dial().put(note(t, "public", 0))

	stranger.expect("EVENT all public")
	for _, want := range []string{"dm", "fleeting", "public"} {
		alice.expect("EVENT all " + want)
	}
	for _, want := range []string{"dm", "wrap", "public"} {
		bob.expect("EVENT all " + want)
	}
	for _, want := range []string{"wrap", "fleeting", "public"} {
		carol.expect("EVENT all " + want)
	}
	key := publicKey(t, bobSecret)
	for filter, want := range map[string][4]string{
		`{}`:                                {"public dm", "public wrap dm", "public wrap", "public"},
		`{"limit":1}`:                       {"public", "public", "public", "public"},
		`{"ids":["` + dm.ID + `"]}`:         {"dm", "dm", "", ""},
		`{"#p":["` + key + `"]}`:            {"dm", "wrap dm", "wrap", ""},
		`{"#p":["` + key + `"],"limit":1}`:  {"dm", "wrap", "wrap", ""}, // what is hidden takes no place
		`{"authors":["` + dm.PubKey + `"]}`: {"public dm", "public dm", "public", "public"},
		`{"kinds":[1,7]}`:                   {"public", "public", "public", "public"},
		`{"#p":["` + key + `"],"#e":["` + dm.ID + `"]}`: {"", "", "", ""},
	} {
		for i, p := range []*peer{alice, bob, carol, r.dial()} {
			if got := p.stored(filter); got != want[i] {
				t.Errorf("%s, reader %d: %q, want %q", filter, i, got, want[i])
			}
		}
	}
	if got := bob.stored(`{"kinds":[4,1059]}`); got != "wrap dm" {
		t.Errorf("bob's messages: %q", got)
	}
	stranger.send(`["COUNT","n",{"kinds":[1,1059]}]`)
	if m := stranger.next(); m.Label != nip01.LabelAuth {
		t.Errorf("got %s", summary(m))
	}
	stranger.expect("CLOSED n auth-required: events of kind 1059 are for their author and those whom they name")
	if got := alice.count(`{"kinds":[4,1059]}`); got != 1 {
		t.Errorf("alice counts %d", got)
	}
}

// TestMixedRequest: a request for public and private kinds is answered in its
// public part, and in full once the client has proved who it is.
func TestMixedRequest(t *testing.T) {
	r := start(t, Config{})
	to := nostr.Tag{"p", publicKey(t, bobSecret)}
	r.dial().put(sign(t, aliceSecret, nostr.Event{Kind: 1059, Content: "wrap", CreatedAt: ago(9), Tags: nostr.Tags{to}}))
	r.dial().put(note(t, "public", 8, to))
	for _, filters := range []string{`{"kinds":[1,1059]}`, `{"kinds":[1059]},{"kinds":[1]}`, `{"kinds":[1059]},{"#p":["` + to[1] + `"]}`} {
		p := r.dial()
		p.send(`["REQ","mixed",` + filters + `]`)
		challenge := p.next()
		if challenge.Label != nip01.LabelAuth {
			t.Fatalf("%s: got %s", filters, summary(challenge))
		}
		p.expect("EVENT mixed public")
		p.expect("EOSE mixed")

		proof := sign(t, bobSecret, nostr.Event{Kind: 22242, Tags: nostr.Tags{{"relay", "ws://" + r.addr}, {"challenge", challenge.Text}}})
		p.send(`["AUTH",` + string(nip01.Marshal(&proof)) + `]`)
		p.expect("OK true ")
		if got := p.stored(`{"kinds":[1,1059]}`); got != "public wrap" {
			t.Errorf("%s, proved: %q", filters, got)
		}
		live := sign(t, aliceSecret, nostr.Event{Kind: 1059, Content: "live " + filters, Tags: nostr.Tags{to}})
		r.dial().put(live) // to the subscription that was there before the proof
		p.expect("EVENT mixed " + live.Content)
		r.dial().put(sign(t, bobSecret, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", live.ID}}}))
	}
}

func TestNoPrivateKinds(t *testing.T) {
	r := start(t, Config{PrivateKinds: []int{}})
	p := r.dial()
	p.put(sign(t, aliceSecret, nostr.Event{Kind: 4, Content: "open"}))
	if got := p.stored(`{"kinds":[4]}`); got != "open" {
		t.Errorf("%q", got)
	}
	if nips := r.srv.nips(); len(nips) != 8 {
		t.Errorf("NIPs %v", nips)
	}
}

// TestGiftWrapsAreTheRecipients: they are signed with keys that nobody keeps.
func TestGiftWrapsAreTheRecipients(t *testing.T) {
	r := start(t, Config{PrivateKinds: []int{}})
	p := r.dial()
	wrap := func(content string) nostr.Event {
		return sign(t, aliceSecret, nostr.Event{Kind: 1059, Content: content, Tags: nostr.Tags{{"p", publicKey(t, bobSecret)}}})
	}
	deletion := func(secret string, ev nostr.Event) nostr.Event {
		return sign(t, secret, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", ev.ID}, {"k", "1059"}}})
	}
	const carolSecret = "7ee1c8000ab28edd64d74a7d951ac2dd559814887b1b9e1ac7c5f89e96125c12"
	first, second := wrap("first"), wrap("second")
	p.put(first)
	p.put(deletion(carolSecret, first)) // named nowhere in it
	if got := p.stored(`{"kinds":[1059]}`); got != "first" {
		t.Errorf("after a stranger's deletion: %q", got)
	}
	p.put(deletion(bobSecret, first))
	p.put(deletion(bobSecret, second))
	if got := p.stored(`{"kinds":[1059]}`); got != "" {
		t.Errorf("after the recipient's deletion: %q", got)
	}
	for _, ev := range []nostr.Event{first, second} {
		p.publish(ev)
		p.expect("OK false blocked: its author deleted this event")
	}
	other := sign(t, aliceSecret, nostr.Event{Kind: 1, Content: "no wrap", Tags: nostr.Tags{{"p", publicKey(t, bobSecret)}}})
	p.put(other)
	p.put(deletion(bobSecret, other))
	if got := p.stored(`{"kinds":[1]}`); got != "no wrap" {
		t.Errorf("a note is deleted by whom it names: %q", got)
	}
}
