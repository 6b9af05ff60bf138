package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

const carolSecret = "7ee1c8000ab28edd64d74a7d951ac2dd559814887b1b9e1ac7c5f89e96125c12"

func TestQuotaTakesTheFloodersOwn(t *testing.T) {
	r := start(t, Config{Limits: Limits{EventTotalBytes: 1 << 20}})
	p := r.dial()
	p.put(note(t, "profile-like", 9, nostr.Tag{"t", "kept"}))
	p.put(sign(t, aliceSecret, nostr.Event{Kind: 31990, Content: "offer", Tags: nostr.Tags{{"d", "x"}}}))
	for i := range 60 { // 3.6 MB
		p.put(sign(t, bobSecret, nostr.Event{Kind: 1, Content: fmt.Sprint(i, " ", strings.Repeat("x", 60_000)), Tags: nostr.Tags{{"t", "flood"}}}))
	}
	if got := p.stored(`{"authors":["` + publicKey(t, aliceSecret) + `"]}`); got != "offer profile-like" {
		t.Errorf("of the others is left: %q", got)
	}
	bob := strings.Fields(p.stored(`{"#t":["flood"]}`))
	if n := len(bob) / 2; n < 10 || n > 17 {
		t.Errorf("%d of the flooder's are left", n)
	}
	if n := usageTotal(t, r.srv); n > 1<<20 {
		t.Errorf("%d bytes are charged", n)
	}
	var rows, tags int
	count(t, r.srv, "SELECT count(*) FROM events", &rows)
	count(t, r.srv, "SELECT count(*) FROM tags", &tags)
	if tags != rows { // each has one tag
		t.Errorf("%d index entries for %d events", tags, rows)
	}
}

func TestQuotaTakesTheOldest(t *testing.T) {
	r := start(t, Config{Limits: Limits{EventTotalBytes: 40_000}})
	p := r.dial()
	var secrets []string
	for i := range 32 { // each key within its share
		secrets = append(secrets, fmt.Sprintf("%064x", i+1))
	}
	for i, secret := range secrets {
		// created_at runs backwards: it is the arrival that counts
		p.put(sign(t, secret, nostr.Event{Kind: 1, Content: fmt.Sprint(i, ".", strings.Repeat("x", 2000)), CreatedAt: ago(i * 10)}))
	}
	left := strings.Fields(p.stored(`{"kinds":[1]}`))
	if len(left) < 10 || len(left) > 16 {
		t.Errorf("%d are left", len(left))
	}
	for i, content := range left {
		if want := fmt.Sprint(32-len(left)+i, "."); !strings.HasPrefix(content, want) {
			t.Errorf("%.4s is left, want %s", content, want)
		}
	}
}

func TestQuotaOfReplaceable(t *testing.T) {
	r := start(t, Config{Limits: Limits{EventTotalBytes: 640_000}}) // 10,000 a key
	p := r.dial()
	offer := func(secret, d string, size, age int) nostr.Event {
		return sign(t, secret, nostr.Event{Kind: 31990, CreatedAt: ago(age), Content: d + strings.Repeat("x", size), Tags: nostr.Tags{{"d", d}}})
	}
	p.put(offer(aliceSecret, "a", 4000, 9))
	p.put(offer(aliceSecret, "b", 3000, 9))
	p.publish(offer(aliceSecret, "c", 4000, 9))
	p.expect("OK false blocked: this key has too many replaceable events")
	p.publish(offer(aliceSecret, "a", 7000, 8)) // nor may one grow beyond
	p.expect("OK false blocked: this key has too many replaceable events")
	p.put(offer(aliceSecret, "a", 4000, 7)) // the next version
	p.put(offer(aliceSecret, "b", 100, 7))
	p.put(offer(aliceSecret, "c", 2000, 7))
	p.put(offer(bobSecret, "a", 8000, 7))
	p.put(note(t, "regular ones are not concerned", 0))

	sum := 0
	for i := 0; ; i++ {
		if i > 40 {
			t.Fatal("all keys together have no bound")
		}
		p.publish(offer(fmt.Sprintf("%064x", i+1), "z", 8000, 7))
		m := p.next()
		if !m.Accepted {
			if m.Text != "error: no room for more replaceable events" {
				t.Error(m.Text)
			}
			break
		}
		sum++
	}
	if sum < 30 {
		t.Errorf("only %d were taken", sum)
	}
	p.put(offer(bobSecret, "a", 7900, 6)) // the others go on
}

// TestQuotaCountsAgree removes events in every way and compares the counters
// with the rows.
func TestQuotaCountsAgree(t *testing.T) {
	r := start(t, Config{})
	p := r.dial()
	gone := note(t, "gone", 3, nostr.Tag{"t", "x"})
	p.put(gone)
	p.put(note(t, "stays", 3))
	p.put(sign(t, aliceSecret, nostr.Event{Kind: 0, Content: "1", CreatedAt: ago(9)}))
	p.put(sign(t, aliceSecret, nostr.Event{Kind: 0, Content: "longer", CreatedAt: ago(8)}))
	p.put(sign(t, bobSecret, nostr.Event{Kind: 1, Content: "other"}))
	p.put(sign(t, aliceSecret, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", gone.ID}}}))
	var wrong, keys int
	count(t, r.srv, `SELECT count(*) FROM (SELECT pubkey, sum(iif(address IS NULL, size, 0)) r, sum(iif(address IS NULL, 0, size)) s
		FROM events GROUP BY pubkey) e JOIN usage u USING (pubkey) WHERE e.r <> u.regular OR e.s <> u.standing`, &wrong)
	count(t, r.srv, "SELECT count(*) FROM usage", &keys)
	if wrong != 0 || keys != 2 {
		t.Errorf("%d of %d keys are counted wrong", wrong, keys)
	}
	var sum int
	count(t, r.srv, "SELECT sum(size) FROM events", &sum)
	if got := usageTotal(t, r.srv); got != sum {
		t.Errorf("%d in all, counted %d", sum, got)
	}
}

// TestEvictedDeletionIsForgotten: tombstones take room too.
func TestEvictedDeletionIsForgotten(t *testing.T) {
	r := start(t, Config{Limits: Limits{EventTotalBytes: 40_000}})
	p := r.dial()
	p.put(sign(t, carolSecret, nostr.Event{Kind: 5, Tags: nostr.Tags{{"e", strings.Repeat("a", 64)}, {"e", strings.Repeat("b", 64)}}}))
	var n int
	if count(t, r.srv, "SELECT count(*) FROM deleted", &n); n != 2 {
		t.Fatalf("%d tombstones", n)
	}
	for i := range 30 {
		p.put(sign(t, fmt.Sprintf("%064x", i+1), nostr.Event{Kind: 1, Content: strings.Repeat("x", 2000)}))
	}
	if count(t, r.srv, "SELECT count(*) FROM deleted", &n); n != 0 {
		t.Errorf("%d tombstones are left", n)
	}
}

// TestQuotaOfAnOlderStore opens a store from before there was a quota.
func TestQuotaOfAnOlderStore(t *testing.T) {
	path := t.TempDir() + "/relay.db"
	db, err := sqlite.Open(t.Context(), path, sqlite.Options{Migrations: migrations[:1]})
	if err != nil {
		t.Fatal(err)
	}
	ev := note(t, "old", 5)
	err = db.Update(context.Background(), func(tx *sqlite.Tx) error {
		_, err := tx.Exec("INSERT INTO events (id, pubkey, kind, created_at, raw) VALUES (?, ?, 1, ?, ?)",
			unhex(ev.ID), unhex(ev.PubKey), int64(ev.CreatedAt), []byte(ev.String()))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Dir: strings.TrimSuffix(path, "/relay.db")})
	if got := r.dial().stored(`{}`); got != "old" {
		t.Errorf("found %q", got)
	}
	if n := usageTotal(t, r.srv); n < 700 {
		t.Errorf("%d bytes are charged", n)
	}
}

func usageTotal(t *testing.T, s *Server) (n int) {
	t.Helper()
	count(t, s, "SELECT regular + standing FROM usage_total", &n)
	return n
}
