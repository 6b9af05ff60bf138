package server

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

func TestRetention(t *testing.T) {
	cfg := Config{Dir: t.TempDir()}
	r := start(t, cfg)
	p := r.dial()
	event := func(kind, age int, content string) nostr.Event {
		return sign(t, aliceSecret, nostr.Event{Kind: kind, CreatedAt: ago(age), Content: content})
	}
	deletion := sign(t, aliceSecret, nostr.Event{Kind: 5, CreatedAt: ago(9001), Tags: nostr.Tags{{"e", strings.Repeat("a", 64)}}})
	for _, ev := range []nostr.Event{
		event(0, 9000, "profile"), deletion,
		event(5050, 100, "job 100"), event(5051, 200, "job 200"), event(6050, 300, "job 300"), event(5052, 4000, "job 4000"),
		event(1, 10, "note 10"), event(1, 5000, "note 5000"), event(7000, 8000, "feedback"),
		event(1063, 1, "unwanted"),
	} {
		p.put(ev)
	}
	r.stop()

	cfg.Retention = []Retention{
		{Kinds: []KindRange{{0, 0}, {30000, 39999}}},                       // kept for good
		{Kinds: []KindRange{{5000, 6999}}, MaxAge: time.Hour, MaxCount: 2}, // both limits
		{Kinds: []KindRange{{1063, 1063}}, Refuse: true},                   // turned away, what is there stays
		{Kinds: []KindRange{{1063, 1063}}, MaxAge: time.Nanosecond},        // never in force
		{MaxAge: 2 * time.Hour},                                            // all others
	}
	r = start(t, cfg)
	p = r.dial()
	if err := r.srv.tidy(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, want := p.stored(`{}`), "unwanted note 10 job 200 job 300 note 5000 profile "; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
	var wrong int
	count(t, r.srv, `SELECT (SELECT regular + standing FROM usage_total) - (SELECT sum(size) FROM events)`, &wrong)
	if wrong != 0 {
		t.Errorf("the sizes are %d bytes off", wrong)
	}
	for _, c := range []struct {
		ev   nostr.Event
		want string
	}{
		{event(5050, 3700, "x"), "OK false invalid: created_at is too long ago, events of kind 5050 are kept for 1h0m0s"},
		{event(1, 7300, "x"), "OK false invalid: created_at is too long ago, events of kind 1 are kept for 2h0m0s"},
		{event(1063, 0, "x"), "OK false blocked: events of kind 1063 are not taken here"},
		{event(20001, 7300, "x"), "OK true "},
		{event(5, 9900, "x"), "OK true "},
		{event(10002, 9900, "x"), "OK false invalid: created_at is too long ago, events of kind 10002 are kept for 2h0m0s"},
		{event(30023, 9900, "x"), "OK true "},
	} {
		p.publish(c.ev)
		p.expect(c.want)
	}
	if err := r.srv.tidy(t.Context(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if got, want := p.stored(`{}`), "unwanted note 10 profile  x x"; got != want {
		t.Errorf("an hour later %q, want %q", got, want)
	}
	doc, err := json.Marshal(r.srv.document().Retention)
	if want := `[{"kinds":[[0,0],[30000,39999]]},{"kinds":[[5000,6999]],"time":3600,"count":2},{"kinds":[[1063,1063]],"time":0},{"kinds":[[1063,1063]],"time":0},{"time":7200}]`; err != nil || string(doc) != want {
		t.Errorf("announced %s, %v", doc, err)
	}
}

// TestDatedAhead: who dates its events ahead keeps no others from staying.
func TestDatedAhead(t *testing.T) {
	r := start(t, Config{Dir: t.TempDir(), Retention: []Retention{{MaxCount: 2}}})
	p := r.dial()
	for _, ev := range []nostr.Event{
		{CreatedAt: ago(-200), Content: "ahead 1"},
		{CreatedAt: ago(-200), Content: "ahead 2"},
		{CreatedAt: ago(60), Content: "honest 1"},
		{CreatedAt: ago(30), Content: "honest 2"},
	} {
		ev.Kind = 1
		p.put(sign(t, aliceSecret, ev))
	}
	if err := r.srv.tidy(t.Context(), time.Now()); err != nil {
		t.Fatal(err)
	}
	if got, want := p.stored(`{}`), "honest 2 honest 1"; got != want {
		t.Errorf("kept %q, want %q", got, want)
	}
}

func TestManyToRemove(t *testing.T) {
	srv, err := New(t.Context(), Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close()
	if _, err := srv.store.put(unsigned(200)); err != nil {
		t.Fatal(err)
	}
	n, err := srv.store.retain(t.Context(), []Retention{{MaxCount: 70}}, time.Now())
	if err != nil || n != 130 {
		t.Errorf("removed %d, %v", n, err)
	}
	var oldest, left int
	count(t, srv, "SELECT min(created_at) FROM events", &oldest)
	count(t, srv, "SELECT count(*) FROM events", &left)
	if left != 70 || oldest != 1_700_000_130 {
		t.Errorf("%d left, the oldest is of %d", left, oldest)
	}
}

func TestRetentionRules(t *testing.T) {
	for name, r := range map[string]Retention{
		"backwards":    {Kinds: []KindRange{{5, 4}}},
		"below":        {Kinds: []KindRange{{-1, 4}}},
		"above":        {Kinds: []KindRange{{1, 65536}}},
		"negative age": {MaxAge: -1},
		"negative":     {MaxCount: -1},
		"both":         {Refuse: true, MaxCount: 1},
	} {
		if _, err := New(t.Context(), Config{Dir: t.TempDir(), Retention: []Retention{r}}); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
