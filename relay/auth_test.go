package relay

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/relay/nip01"
	"github.com/lightwork-market/lightwork/relay/server"
)

// TestAuthentication: a relay that serves nobody it does not know is told who
// asks, and then publishes, queries and subscriptions go on.
func TestAuthentication(t *testing.T) {
	r := &testRelay{t: t, cfg: server.Config{Dir: t.TempDir(), PrivateKinds: []int{5050}}, addr: port.Reserve(t)}
	r.start()
	t.Cleanup(r.stop)
	me, other := mustKey(t), mustKey(t)
	known, unknown := startPool(t, Config{URLs: []string{r.url()}, Signer: me}), startPool(t, Config{URLs: []string{r.url()}})

	filter := nostr.Filter{Kinds: []int{5050}, Tags: nostr.TagMap{"p": {me.PublicKey()}}}
	sub := subscribe(t, known, SubscribeOptions{}, filter)
	ready(t, sub)

	mine := signedBy(t, me, nostr.Tag{"-"}, nostr.Tag{"p", me.PublicKey()})
	if got := unknown.Publish(t.Context(), mine)[0]; got.OK || !strings.HasPrefix(got.Message, "auth-required:") {
		t.Errorf("a stranger publishes a protected event: %+v", got)
	}
	if got := known.Publish(t.Context(), mine)[0]; !got.OK || got.Err != nil {
		t.Errorf("its author: %+v", got)
	}
	if got := receive(t, sub); got != mine.Content {
		t.Errorf("got %s", got)
	}
	if got := known.Publish(t.Context(), signedBy(t, other, nostr.Tag{"-"}))[0]; got.OK {
		t.Errorf("somebody else's protected event: %+v", got)
	}

	fresh := startPool(t, Config{URLs: []string{r.url()}, Signer: me})
	if events, err := fresh.Query(t.Context(), filter); err != nil || len(events) != 1 {
		t.Errorf("%d events, %v", len(events), err)
	}
	if _, err := unknown.Query(t.Context(), filter); !errors.Is(err, ErrRefused) {
		t.Errorf("a stranger asks: %v", err)
	}
	away := startPool(t, Config{URLs: []string{r.url()}, Signer: unwilling{me}})
	if _, err := away.Query(t.Context(), filter); !errors.Is(err, ErrAuth) {
		t.Errorf("with a signer that refuses: %v", err)
	}
}

// TestAuthenticationWithoutEnd: a relay that believes every proof and refuses all
// the same, each time with a new challenge, gets a few signatures and no more.
func TestAuthenticationWithoutEnd(t *testing.T) {
	const few = 8
	var mu sync.Mutex
	proofs, after := 0, 0 // after: requests that came since the last proof
	enough := make(chan struct{})
	url := fakeRelay(t, func(m nip01.ClientMessage, send func(string)) {
		mu.Lock()
		defer mu.Unlock()
		switch m.Label {
		case nip01.LabelReq:
			if after++; after == 10 {
				close(enough)
			}
			send(quoted("AUTH", fmt.Sprint("challenge", rand.Int())))
			send(quoted("CLOSED", m.SubID, "auth-required: who are you"))
		case nip01.LabelAuth:
			if proofs++; proofs <= few {
				after = 0
			}
			send(`["OK","` + m.Event.ID + `",true,""]`)
		}
	})
	p := startPool(t, Config{URLs: []string{url}, Signer: mustKey(t), MinBackoff: time.Millisecond, MaxBackoff: time.Millisecond})
	subscribe(t, p, SubscribeOptions{}, kind1)
	select {
	case <-enough:
	case <-time.After(30 * time.Second):
		t.Error("the relay is not asked again")
	}
	if _, err := p.Query(t.Context(), kind1); err == nil {
		t.Error("a query that was refused")
	}
	mu.Lock()
	defer mu.Unlock()
	if proofs == 0 || proofs > few {
		t.Errorf("the key signed %d times, want one to %d", proofs, few)
	}
}

type unwilling struct{ *Key }

func (unwilling) Sign(context.Context, *nostr.Event) error { return errors.New("no") }

func signedBy(t *testing.T, key *Key, tags ...nostr.Tag) nostr.Event {
	t.Helper()
	ev := nostr.Event{Kind: 5050, CreatedAt: now(), Tags: tags, Content: "mine"}
	if err := key.Sign(t.Context(), &ev); err != nil {
		t.Fatal(err)
	}
	return ev
}
