package server

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// challenged reads the challenge that comes with a refusal.
func (p *peer) challenged() string {
	p.t.Helper()
	m := p.next()
	if m.Label != nip01.LabelAuth || len(m.Text) < 20 {
		p.t.Fatalf("got %s, want a challenge", summary(m))
	}
	return m.Text
}

func (p *peer) auth(ev nostr.Event) {
	p.t.Helper()
	p.send(`["AUTH",` + string(nip01.Marshal(&ev)) + `]`)
}

func proof(t *testing.T, secret, url, challenge string) nostr.Event {
	t.Helper()
	return sign(t, secret, nostr.Event{Kind: 22242, Tags: nostr.Tags{{"relay", url}, {"challenge", challenge}}})
}

func TestAuthentication(t *testing.T) {
	r := start(t, Config{PublicURL: "https://Relay.example.com"})
	p := r.dial()
	secret := note(t, "mine alone to publish", 0, nostr.Tag{"-"})
	p.auth(proof(t, aliceSecret, "ws://"+r.addr, "guessed"))
	p.expect("OK false invalid: the challenge tag is not the challenge of this connection")
	p.publish(secret)
	challenge := p.challenged()
	p.expect("OK false auth-required: only its author may publish this event")

	url := "wss://relay.example.com"
	change := func(change func(*nostr.Event)) nostr.Event {
		ev := nostr.Event{Kind: 22242, Tags: nostr.Tags{{"relay", url}, {"challenge", challenge}}}
		change(&ev)
		return sign(t, aliceSecret, ev)
	}
	forged := proof(t, aliceSecret, url, challenge)
	forged.PubKey = publicKey(t, bobSecret)
	forged.ID = nip01.ID(&forged)
	for name, c := range map[string]struct {
		ev   nostr.Event
		want string
	}{
		"kind":           {change(func(ev *nostr.Event) { ev.Kind = 22243 }), "invalid: an AUTH message carries an event of kind 22242"},
		"old":            {change(func(ev *nostr.Event) { ev.CreatedAt = ago(700) }), "invalid: created_at is more than 10 minutes from now"},
		"ahead":          {change(func(ev *nostr.Event) { ev.CreatedAt = ago(-700) }), "invalid: created_at is more than 10 minutes from now"},
		"no challenge":   {change(func(ev *nostr.Event) { ev.Tags = ev.Tags[:1] }), "invalid: the challenge tag is not the challenge of this connection"},
		"no relay":       {change(func(ev *nostr.Event) { ev.Tags = ev.Tags[1:] }), "invalid: the relay tag must name ws://relay.example.com or wss://relay.example.com"},
		"another relay":  {proof(t, aliceSecret, "wss://evil.example.com", challenge), "invalid: the relay tag must name ws://relay.example.com or wss://relay.example.com"},
		"another path":   {proof(t, aliceSecret, url+"/x", challenge), "invalid: the relay tag must name ws://relay.example.com or wss://relay.example.com"},
		"another scheme": {proof(t, aliceSecret, "https://relay.example.com", challenge), "invalid: the relay tag must name ws://relay.example.com or wss://relay.example.com"},
		"forged":         {forged, "invalid: bad signature"},
	} {
		p.auth(c.ev)
		if got := summary(p.next()); got != "OK false "+c.want {
			t.Errorf("%s: got %s", name, got)
		}
	}
	p.publish(secret)
	if p.challenged() != challenge {
		t.Error("the challenge changed")
	}
	p.expect("OK false auth-required: only its author may publish this event")

	p.auth(proof(t, bobSecret, "WSS://RELAY.example.com:443/", challenge))
	p.expect("OK true ")
	p.publish(secret)
	p.challenged()
	p.expect("OK false restricted: only its author may publish this event")
	p.auth(proof(t, aliceSecret, "ws://"+r.addr, challenge))
	p.expect("OK true ")
	p.put(secret)
	if got := r.dial().stored(`{"kinds":[1]}`); got != "mine alone to publish" {
		t.Errorf("stored %q", got)
	}
}

// TestAuthenticationIsOfOneConnection: neither a proof nor the host name that a
// client gives is worth anything on another connection.
func TestAuthenticationIsOfOneConnection(t *testing.T) {
	r := start(t, Config{})
	first, second := r.dial(), r.dial()
	secret := note(t, "x", 0, nostr.Tag{"-"})
	first.publish(secret)
	ev := proof(t, aliceSecret, "ws://"+r.addr, first.challenged())
	first.expect("OK false auth-required: only its author may publish this event")
	second.publish(secret)
	second.challenged()
	second.expect("OK false auth-required: only its author may publish this event")
	second.auth(ev)
	second.expect("OK false invalid: the challenge tag is not the challenge of this connection")
	first.auth(ev)
	first.expect("OK true ")
	second.publish(secret)
	second.challenged()
	second.expect("OK false auth-required: only its author may publish this event")
	first.publish(ev) // never an event for others
	first.expect("OK false invalid: an event of kind 22242 goes into an AUTH message")
}

func TestKeysOfAConnection(t *testing.T) {
	i := identity{hosts: []string{"h"}, challenge: "c"}
	good := func(*nostr.Event) error { return nil }
	for n := range maxKeys + 1 {
		ev := nostr.Event{Kind: 22242, PubKey: fmt.Sprint(n), CreatedAt: nostr.Now(), Tags: nostr.Tags{{"relay", "ws://h"}, {"challenge", "c"}}}
		want := ""
		if n == maxKeys {
			want = "restricted: too many keys on one connection"
		}
		for range 2 {
			if got := i.accept(&ev, time.Now(), good); got != want {
				t.Errorf("key %d: %q", n, got)
			}
		}
	}
	if len(i.keys()) != maxKeys {
		t.Errorf("%d keys", len(i.keys()))
	}
}

func TestHostNames(t *testing.T) {
	for _, c := range []struct{ url, local, want string }{
		{"", "127.0.0.1:80", "127.0.0.1:80 localhost:80"},
		{"", "[::1]:7447", "[::1]:7447 localhost:7447"},
		{"http://a.example:80", "10.0.0.1:7447", "a.example 10.0.0.1:7447"},
		{"https://A.example", "10.0.0.1:7447", "a.example 10.0.0.1:7447"},
	} {
		addr, err := net.ResolveTCPAddr("tcp", c.local)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(hostNames(c.url, addr), " "); got != c.want {
			t.Errorf("%q %s: %q, want %q", c.url, c.local, got, c.want)
		}
	}
}

func TestReposts(t *testing.T) {
	p := start(t, Config{}).dial()
	repost := func(kind int, content string) nostr.Event {
		return sign(t, bobSecret, nostr.Event{Kind: kind, Content: content})
	}
	plain, guarded := note(t, "x", 0), note(t, "x", 0, nostr.Tag{"-"})
	p.put(repost(6, string(nip01.Marshal(&plain))))
	p.put(repost(6, ""))
	p.put(repost(1, string(nip01.Marshal(&guarded))))
	for _, kind := range []int{6, 16} {
		p.publish(repost(kind, string(nip01.Marshal(&guarded))))
		p.expect("OK false blocked: a repost must not embed a protected event")
	}
}

func TestProofOfWork(t *testing.T) {
	p := start(t, Config{Limits: Limits{MinPow: 8}}).dial()
	mine := func(bits int, committed string) nostr.Event {
		for i := 0; ; i++ {
			ev := nostr.Event{Kind: 1, CreatedAt: nostr.Now(), PubKey: publicKey(t, aliceSecret), Tags: nostr.Tags{{"nonce", fmt.Sprint(i)}}}
			if committed != "" {
				ev.Tags[0] = append(ev.Tags[0], committed)
			}
			if id := nip01.ID(&ev); bits > 0 && !strings.HasPrefix(id, "00") || bits == 0 && id[0] == '0' {
				continue
			}
			return sign(t, aliceSecret, ev)
		}
	}
	p.put(mine(8, "8"))
	for name, ev := range map[string]nostr.Event{
		"none":            note(t, "", 0),
		"not committed":   mine(8, ""),
		"committed less":  mine(8, "7"),
		"committed, lied": mine(0, "8"),
		"negative":        mine(8, "-9"),
	} {
		p.publish(ev)
		if got := summary(p.next()); !strings.HasPrefix(got, "OK false pow: ") {
			t.Errorf("%s: %s", name, got)
		}
	}
	lied := mine(0, "8") // its own id does not begin with 00
	lied.ID = "00" + lied.ID[2:]
	p.publish(lied)
	p.expect("OK false invalid: event id does not match")
}
