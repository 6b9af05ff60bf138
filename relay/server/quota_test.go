package server

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
	"github.com/lightwork-market/lightwork/relay/nip01"
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

	for i := range 60 { // what all have is bounded: some make room
		p.put(offer(fmt.Sprintf("%064x", i+1), "z", 8000, 7))
	}
	var standing int
	count(t, r.srv, "SELECT standing FROM usage_total", &standing)
	if standing > 320_000 || standing < 300_000 {
		t.Errorf("%d bytes in replaceable events", standing)
	}
}

// TestOperatorsEventsStay: throwaway keys fill the room for events, and then again.
// The operator's own always fit, and stay.
func TestOperatorsEventsStay(t *testing.T) {
	dir, own := t.TempDir(), []string{publicKey(t, aliceSecret)}
	limits := Limits{EventTotalBytes: 1 << 20}
	r := start(t, Config{Dir: dir, Owners: own, Limits: limits})
	next := 0
	flood := func(p *peer, kind int) {
		t.Helper()
		for range 140 {
			next++
			p.put(sign(t, fmt.Sprintf("%064x", next), nostr.Event{Kind: kind, Content: strings.Repeat("x", 9000), Tags: nostr.Tags{{"d", "x"}}}))
		}
	}
	p := r.dial()
	flood(p, 30078)
	flood(p, 1)
	kinds := []int{0, 1, 10002, 11998, 31990}
	for i, kind := range kinds {
		ev := nostr.Event{Kind: kind, Content: fmt.Sprint(kind), CreatedAt: ago(i)}
		if kind == 31990 {
			ev.Content += strings.Repeat(" ", 50_000) // and as large as it wants
		}
		p.put(sign(t, aliceSecret, ev))
	}
	flood(p, 30078)
	flood(p, 1)
	mine := `{"authors":["` + own[0] + `"]}`
	if got := strings.Fields(p.stored(mine)); len(got) != len(kinds) {
		t.Errorf("of the operator's events are left: %q", got)
	}

	// Who is the operator, the configuration says anew at each start.
	r.stop()
	r = start(t, Config{Dir: dir, Owners: []string{publicKey(t, bobSecret)}, Limits: limits})
	p = r.dial()
	p.put(sign(t, bobSecret, nostr.Event{Kind: 1, Content: "bob's"}))
	flood(p, 30078)
	flood(p, 1)
	if got := p.stored(mine); strings.Contains(got, "31990") {
		t.Errorf("of a former operator's events are left: %.50q", got)
	}
	if got := p.stored(`{"authors":["` + publicKey(t, bobSecret) + `"]}`); got != "bob's" {
		t.Errorf("the new operator has %q", got)
	}
	if n := usageTotal(t, r.srv); n > 1<<20 {
		t.Errorf("%d bytes are charged", n)
	}
}

// TestWhoHasLittleStays: those make room that have more than their share.
func TestWhoHasLittleStays(t *testing.T) {
	r := start(t, Config{Limits: Limits{EventTotalBytes: 4 << 20}}) // a share of 2 KiB
	p := r.dial()
	p.put(sign(t, carolSecret, nostr.Event{Kind: 31990, Content: "carol's", Tags: nostr.Tags{{"d", "x"}}}))
	for i := range 60 { // 3.6 MB, where 2 MiB fit
		p.put(sign(t, fmt.Sprintf("%064x", i+1), nostr.Event{Kind: 30078, Content: strings.Repeat("x", 60_000), Tags: nostr.Tags{{"d", "x"}}}))
	}
	if got := p.stored(`{"kinds":[31990]}`); got != "carol's" {
		t.Errorf("%q", got)
	}
	// Where nobody has, those make room that were written longest ago.
	for i := range 2200 {
		ev := nostr.Event{Kind: 30078, PubKey: fmt.Sprintf("%064x", 1000+i), CreatedAt: nostr.Now(), Content: strings.Repeat("x", 1000), Sig: strings.Repeat("0", 128)}
		ev.ID = nip01.ID(&ev)
		if _, err := r.srv.store.put([]*job{{event: &ev, raw: nip01.Marshal(&ev)}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := p.stored(`{"kinds":[31990]}`); got != "" {
		t.Errorf("what was written first is left: %q", got)
	}
	if got := p.stored(fmt.Sprintf(`{"authors":["%064x"]}`, 1000+2199)); got == "" {
		t.Error("what was written last is gone")
	}
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
