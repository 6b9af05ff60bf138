// Package conformance is a test suite for relays that needs only a websocket. Each
// case names the line of a NIP that it checks, and requires no more than that line.
//
// An exchange is written as it goes over the wire. Each line begins with the number
// of the connection and the direction:
//
//	1> ["EVENT",{a}]                        the client sends
//	1< ["OK","{a.id}",true,"*"]             the next message of the relay
//
// {a} is an event of the case, {a.id} its id, {alice} and {bob} are public keys,
// {url} is the relay's address and {challenge} the challenge of the last AUTH
// message. In an expected string, a trailing * stands for any rest, and "**" for
// any value. An unexpected AUTH message is skipped; NOTICE is always skipped,
// because "this NIP defines no rules for how NOTICE messages should be sent or
// treated".
package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// patience bounds the wait for one message; a conforming relay never reaches it.
const patience = 10 * time.Second

// Relay is the relay under test.
type Relay struct {
	// Start starts a relay for a case and returns its ws:// address.
	Start func(t *testing.T) string
	// Differs gives the reason, by the name of a case, why this relay is known to
	// fail it. If such a case passes, the entry is out of date and the test fails.
	Differs map[string]string
}

// Names returns the names of all cases, in order.
func Names() []string {
	var names []string
	for _, c := range cases() {
		names = append(names, c.name)
	}
	return names
}

// Run tests the relay with every case.
func Run(t *testing.T, r Relay) {
	names := Names()
	for name := range r.Differs {
		if !slices.Contains(names, name) {
			t.Errorf("there is no case %q to differ in", name)
		}
	}

	for _, c := range cases() {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			err := c.play(r.Start(t))
			why, differs := r.Differs[c.name]
			switch {
			case differs && err == nil:
				t.Errorf("passes, though it is said to differ: %s", why)
			case differs:
				t.Logf("differs: %s\n%s\n%v", why, c.says, err)
			case err != nil:
				t.Errorf("%s\n%v", c.says, err)
			}
		})
	}
}

// exchange is one case.
type exchange struct {
	name string
	says string // the NIP and the quoted line
	// events by name. Alice signs events without a key, bob those with the PubKey
	// "bob". Tags may contain the same placeholders as lines.
	events map[string]nostr.Event
	lines  string
	// change corrupts signed events.
	change func(map[string]*nostr.Event)
}

// player is one run of an exchange.
type player struct {
	url    string
	values map[string]string // replacement of each {name}
	conns  map[byte]*websocket.Conn
}

// play runs the exchange with its own keys.
func (c *exchange) play(url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 6*patience)
	defer cancel()

	p := &player{url: url, values: map[string]string{"url": url}, conns: map[byte]*websocket.Conn{}}
	defer p.close()

	secrets := map[string]string{}
	for _, who := range []string{"alice", "bob"} {
		secrets[who] = nostr.GeneratePrivateKey()
		key, err := nostr.GetPublicKey(secrets[who])
		if err != nil {
			return err
		}
		p.values[who] = key
	}

	for n, line := range strings.Split(strings.TrimSpace(c.lines), "\n") {
		line = strings.TrimSpace(line)
		if err := p.prepare(c, line, secrets); err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		if err := p.step(ctx, line); err != nil {
			return fmt.Errorf("line %d, %s: %w", n+1, line, err)
		}
	}

	return nil
}

func (p *player) close() {
	for _, ws := range p.conns {
		_ = ws.CloseNow()
	}
}

// prepare signs the events in the line that are not signed yet. It is done late
// because some contain another event's id, or the challenge.
func (p *player) prepare(c *exchange, line string, secrets map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(c.events)) {
		_, done := p.values[name]
		if done || !strings.Contains(line, "{"+name+"}") && !strings.Contains(line, "{"+name+".") {
			continue
		}
		ev := c.events[name]
		secret := secrets["alice"]
		if ev.PubKey == "bob" {
			secret = secrets["bob"]
		}
		if ev.CreatedAt <= 0 { // seconds ago
			ev.CreatedAt += nostr.Now()
		}

		tags := nostr.Tags{}
		for _, tag := range ev.Tags {
			var filled nostr.Tag
			for _, v := range tag {
				filled = append(filled, p.fill(v))
			}
			tags = append(tags, filled)
		}

		ev.Tags = tags
		if err := ev.Sign(secret); err != nil {
			return err
		}
		if c.change != nil {
			c.change(map[string]*nostr.Event{name: &ev})
		}
		p.values[name], p.values[name+".id"] = string(nip01.Marshal(&ev)), ev.ID
		p.values[name+".created_at"] = fmt.Sprint(ev.CreatedAt)
	}

	return nil
}

// fill replaces the placeholders.
func (p *player) fill(s string) string {
	for name, v := range p.values {
		s = strings.ReplaceAll(s, "{"+name+"}", v)
	}
	return s
}

// step sends or expects one line.
func (p *player) step(ctx context.Context, line string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	ws := p.conns[line[0]]
	if ws == nil {
		var err error
		if ws, _, err = websocket.Dial(ctx, p.url, nil); err != nil {
			return err
		}
		ws.SetReadLimit(1 << 20)
		p.conns[line[0]] = ws
	}

	text := p.fill(strings.TrimSpace(line[2:]))
	if line[1] == '>' {
		return ws.Write(ctx, websocket.MessageText, []byte(text))
	}
	var want []any
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		return err
	}
	return p.expect(ctx, ws, want)
}

// expect reads the next relevant message and compares it.
func (p *player) expect(ctx context.Context, ws *websocket.Conn, want []any) error {
	for {
		_, doc, err := ws.Read(ctx)
		if err != nil {
			return err
		}
		var got []any
		if err := json.Unmarshal(doc, &got); err != nil || len(got) == 0 {
			return fmt.Errorf("the relay sent %.200q", doc)
		}
		if got[0] == "AUTH" && len(got) == 2 {
			p.values["challenge"] = fmt.Sprint(got[1])
		}
		if got[0] != want[0] && (got[0] == "AUTH" || got[0] == "NOTICE") {
			continue
		}
		if !matches(want, got) {
			return fmt.Errorf("the relay sent %.300s", doc)
		}

		return nil
	}
}

// matches compares JSON values. A wanted string that ends in * is a prefix, and an
// object may have more members than the wanted one.
func matches(want, got any) bool {
	switch w := want.(type) {
	case string:
		if w == "**" {
			return true
		}
		g, ok := got.(string)
		if prefix, open := strings.CutSuffix(w, "*"); open {
			return ok && strings.HasPrefix(g, prefix)
		}
		return ok && g == w
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(w, g, func(a, b any) bool { return matches(a, b) })
	case map[string]any:
		g, ok := got.(map[string]any)
		for name, v := range w {
			ok = ok && matches(v, g[name])
		}
		return ok
	}

	return want == got
}
