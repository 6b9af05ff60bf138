package deliver

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/provider/internal/publish"
)

// memory is a store that has answers.
type memory struct {
	Store
	acks  []job.Ack
	asked int
}

func (m *memory) Acks(context.Context, string) ([]job.Ack, error) { return m.acks, nil }

func (m *memory) Confirmed(context.Context, string) (int, error) {
	m.asked++
	return 1, nil
}

// relays is a market of two relays and no blob server.
type relays struct{ Market }

func (relays) Relays() []string         { return []string{"wss://one", "wss://two"} }
func (relays) BlobURLs(string) []string { return nil }

// delivery is that of a result whose event has these tags.
func delivery(t *testing.T, content string, tags ...nostr.Tag) (*Delivery, *memory) {
	t.Helper()
	doc, err := json.Marshal(nostr.Event{Tags: append(nostr.Tags{domain.Result.Tag()}, tags...), Content: content})
	if err != nil {
		t.Fatal(err)
	}
	store := new(memory)
	j := &openjob.Job{Job: job.Job{State: job.StateDelivering, Result: &job.Result{EventID: "result", Event: doc, Output: []byte(content)}}}
	return New(Config{Store: store, Market: relays{}}).Delivery(j, nil), store
}

// TestARefusedResultIsShortenedFirst: a relay that refuses a result may take a shorter
// one; once nothing is left to take away, it is refused by all who were asked.
func TestARefusedResultIsShortenedFirst(t *testing.T) {
	refused := func(relay string) job.Ack {
		return job.Ack{EventID: "result", Relay: relay, Message: "invalid: too large"}
	}
	for name, tt := range map[string]struct {
		content string
		acks    []job.Ack
		want    refusal
	}{
		"nobody answered":                {"", nil, notRefused},
		"one relay refuses":              {"text", []job.Ack{refused("wss://one")}, refusedAsIs},
		"one refuses the shortest":       {"", []job.Ack{refused("wss://one")}, notRefused},
		"all refuse the shortest":        {"", []job.Ack{refused("wss://one"), refused("wss://two")}, refusedAtAll},
		"a relay is full":                {"text", []job.Ack{{EventID: "result", Relay: "wss://one", Message: "rate-limited: later"}}, notRefused},
		"another event is refused":       {"text", []job.Ack{{EventID: "other", Relay: "wss://one", Message: "invalid: no"}}, notRefused},
		"the blob servers refuse a blob": {"text", []job.Ack{{EventID: "result", Relay: publish.BlobServers, Message: "no"}}, refusedAtAll},
	} {
		d, store := delivery(t, tt.content)
		store.acks = tt.acks
		if got, err := d.refusal(t.Context()); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, tt.want)
		}
	}
}

// TestShortenTakesTheLeastNeededFirst: the inputs, then the request, then the output,
// which is a blob from then on.
func TestShortenTakesTheLeastNeededFirst(t *testing.T) {
	d, _ := delivery(t, "text")
	tags, content := nostr.Tags{{"request", "{}"}, {"i", "input"}, {"e", "id"}}, "text"
	for i, want := range []struct {
		gone    string
		content string
	}{{"i", "text"}, {"request", "text"}, {"", ""}} {
		var shorter bool
		if tags, content, shorter = d.shorten(d.job.Result, tags, content); !shorter {
			t.Fatalf("nothing was taken away at %d", i)
		}
		if want.gone != "" && tags.Find(want.gone) != nil || content != want.content {
			t.Errorf("at %d: %v with content %q", i, tags, content)
		}
	}
	if blob := tags.Find("blob"); blob == nil || tags.Find("e") == nil {
		t.Errorf("the shortest form is %v", tags)
	}
	if _, _, shorter := d.shorten(d.job.Result, tags, content); shorter {
		t.Error("there is a shorter form than the shortest")
	}
}

// TestAnswersOfThisLifeSpareTheStore: the store is asked of a result of an earlier life,
// and where a relay may have taken it in a round that was not heard whole.
func TestAnswersOfThisLifeSpareTheStore(t *testing.T) {
	d, store := delivery(t, "text")
	is := func(want bool, reads int) {
		t.Helper()
		if got, err := d.IsTaken(t.Context()); err != nil || got != want || store.asked != reads {
			t.Errorf("taken: %v, %v after %d reads; want %v after %d", got, err, store.asked, want, reads)
		}
	}
	is(true, 1) // made in an earlier life
	d.expect("result")
	is(false, 1) // nobody answered yet
	d.Note([]job.Ack{{EventID: "result", Relay: "wss://one"}})
	is(true, 2) // one refused; another may have answered before
	d.Note([]job.Ack{{EventID: "result", Relay: "wss://two", OK: true}})
	is(true, 2)
}
