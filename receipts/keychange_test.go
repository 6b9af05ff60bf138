package receipts_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/receipts"
)

// ends is a key's statement; next "" names none.
func ends(key, next string, reason receipts.KeyReason, at int64, change ...func(*receipts.Event)) receipts.Event {
	k := receipts.KeyChange{Version: 1, Key: must(receipts.Npub(xOnly(person(key)))), Reason: reason}
	if next != "" {
		npub := must(receipts.Npub(xOnly(person(next))))
		k.NextKey = &npub
	}
	ev := must(k.Event(at))
	for _, f := range change {
		f(&ev)
	}
	sign(&ev, person(key))
	return ev
}

// acceptance is the acceptance of a statement by a key.
func acceptance(statement receipts.Event, by string, change ...func(*receipts.Event)) receipts.Event {
	ev := receipts.Event{
		Kind: statement.Kind, CreatedAt: statement.CreatedAt, Content: string(statement.JSON()),
		Tags: [][]string{domain.KeyAcceptance.Tag(), {"e", statement.ID}, {"p", statement.PubKey}},
	}
	for _, f := range change {
		f(&ev)
	}
	sign(&ev, person(by))
	return ev
}

// rotation is both events of a rotation.
func rotation(key, next string, at int64) []receipts.Event {
	statement := ends(key, next, receipts.KeyRotated, at)
	return []receipts.Event{statement, acceptance(statement, next)}
}

func lines(events ...receipts.Event) (list []string) {
	for _, ev := range events {
		list = append(list, string(ev.JSON()))
	}
	return list
}

func keyLines(list []string) string {
	var b strings.Builder
	for _, line := range list {
		b.WriteString(line + "\n")
	}
	return b.String()
}

// underOldKey makes the receipt before one of another key.
func underOldKey(key string) recipe {
	var before []byte
	return recipe{
		receipt: func(r *receipts.Receipt) {
			old := *r
			old.Sequence, old.PreviousReceiptHash, old.ProviderID = 1, nil, must(receipts.Npub(xOnly(person(key))))
			before = previousReceipt(old)
			hash := hashing.Bytes(before)
			r.PreviousReceiptHash = &hash
		},
		finished: func(b *receipts.Bundle) { b.Previous = before },
	}
}

// changedKeys are receipts of keys that have ended, or follow others.
func changedKeys() []scenario {
	old, now := xOnly(person("old provider")), xOnly(person("provider"))
	pinned := func(key string, also ...string) func(*receipts.Pins) {
		return func(p *receipts.Pins) { p.Provider, p.Also = key, also }
	}
	rotated := lines(rotation("old provider", "provider", requested-100)...)
	twice := lines(slices.Concat(rotation("old provider", "middle", requested-200), rotation("middle", "provider", requested-100))...)
	circle := lines(slices.Concat(rotation("old provider", "provider", requested-100), rotation("provider", "old provider", settled+100))...)
	forked := lines(slices.Concat(rotation("old provider", "provider", requested-100), rotation("old provider", "thief", requested-200))...)
	follows := underOldKey("old provider")

	return []scenario{
		{name: "keys_rotated", about: "the receipt before is of the key that led to this one", recipe: follows, keys: rotated, pins: pinned(old, now)},
		{name: "keys_rotated_new_pinned", about: "the same, and the new key is pinned", recipe: follows, keys: rotated, pins: pinned(now, old)},
		{name: "keys_rotated_twice", about: "two changes lead from the old key to the new", recipe: follows, keys: twice, pins: pinned(old, now)},
		{name: "keys_rotated_in_a_circle", about: "the new key leads back to the old one", recipe: follows, keys: circle, pins: pinned(old, now)},
		{
			name: "keys_not_asked", about: "changes are known, but nobody asked that both keys count as one", recipe: follows, keys: rotated, pins: pinned(now),
			want: failed(receipts.ClaimChain),
		},
		{
			name: "keys_not_joined", about: "both keys were asked for, and no change joins them", recipe: follows,
			keys: lines(rotation("old provider", "stranger", requested-100)...), pins: pinned(old, now), want: failed(receipts.ClaimSignature, receipts.ClaimChain),
		},
		{
			name: "keys_not_accepted", about: "the old key names the new one, which has not agreed", recipe: follows,
			keys: rotated[:1], pins: pinned(old, now), want: failed(receipts.ClaimSignature, receipts.ClaimChain),
		},
		{
			name: "keys_backwards", about: "the receipt before is of the key that follows this one", recipe: follows,
			keys: lines(rotation("provider", "old provider", settled+100)...), pins: pinned(now, old), want: failed(receipts.ClaimChain),
		},
		{
			name: "keys_forked", about: "the old key named two next keys: nobody can tell which is its owner's", recipe: follows,
			keys: forked, pins: pinned(old, now), want: failed(receipts.ClaimSignature, receipts.ClaimChain),
		},
		{
			name: "keys_retired_before", about: "the provider's key was retired before the receipt", keys: lines(ends("provider", "", receipts.KeyRetired, settled-1)),
			want: failed(receipts.ClaimSignature), because: map[string]string{receipts.ClaimSignature: "retired"},
		},
		{
			name: "keys_rotated_before", about: "the provider's key was rotated before the receipt", keys: lines(rotation("provider", "later", settled-1)...),
			want: failed(receipts.ClaimSignature), because: map[string]string{receipts.ClaimSignature: "rotated"},
		},
		{name: "keys_retired_with_it", about: "the provider's key was retired in the second of the receipt", keys: lines(ends("provider", "", receipts.KeyRetired, settled))},
		{name: "keys_retired_after", about: "the provider's key was retired after the receipt", keys: lines(ends("provider", "", receipts.KeyRetired, settled+1))},
		{
			name: "keys_retired_of_buyer", about: "the buyer's key was retired before the request", keys: lines(ends("buyer", "", receipts.KeyRetired, requested-1)),
			want: states{receipts.ClaimJob: receipts.Failed},
		},
		{name: "keys_also_stranger", about: "a key that is in no document is asked for too", keys: rotated, pins: pinned(now, xOnly(person("stranger")))},
	}
}

// TestKeyStatements: what is read of a statement, and what is refused.
func TestKeyStatements(t *testing.T) {
	s := must(receipts.ParseKeyStatement(ends("a", "b", receipts.KeyRotated, settled)))
	if s.Key != xOnly(person("a")) || s.Next != xOnly(person("b")) || s.Reason != receipts.KeyRotated || s.Accepted || !s.At.Equal(time.Unix(settled, 0)) {
		t.Errorf("%+v", s)
	}
	statement := ends("a", "b", receipts.KeyRotated, settled)
	if ev := must(receipts.AcceptKeyChange(statement, settled)); true {
		sign(&ev, person("b"))
		if s := must(receipts.ParseKeyStatement(ev)); !s.Accepted || s.Next != xOnly(person("b")) {
			t.Errorf("%+v", s)
		}
	}
	if _, err := receipts.AcceptKeyChange(ends("a", "", receipts.KeyRetired, settled), settled); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("a change without a next key is accepted: %v", err)
	}
	if _, err := receipts.AcceptKeyChange(acceptance(statement, "b"), settled); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("an acceptance is accepted: %v", err)
	}

	content := func(from, to string) func(*receipts.Event) {
		return func(ev *receipts.Event) {
			if !strings.Contains(ev.Content, from) {
				t.Errorf("no %s in %s", from, ev.Content)
			}
			ev.Content = strings.Replace(ev.Content, from, to, 1)
		}
	}
	tags := func(tags ...[]string) func(*receipts.Event) {
		return func(ev *receipts.Event) { ev.Tags = tags }
	}
	npub := func(name string) string { return must(receipts.Npub(xOnly(person(name)))) }
	next := []string{"p", xOnly(person("b"))}
	broken := ends("a", "b", receipts.KeyRotated, settled)
	broken.Sig = strings.Repeat("1", 128)
	later := statement
	later.CreatedAt++

	for name, ev := range map[string]receipts.Event{
		"another kind":             ends("a", "b", receipts.KeyRotated, settled, func(ev *receipts.Event) { ev.Kind = 7004 }),
		"another domain":           ends("a", "b", receipts.KeyRotated, settled, tags(domain.Receipt.Tag(), next)),
		"no domain":                ends("a", "b", receipts.KeyRotated, settled, tags(next)),
		"another's key":            ends("a", "b", receipts.KeyRotated, settled, content(npub("a"), npub("c"))),
		"itself next":              ends("a", "b", receipts.KeyRotated, settled, content(npub("b"), npub("a"))),
		"a next that is no key":    ends("a", "b", receipts.KeyRotated, settled, content(npub("b"), must(receipts.Npub(strings.Repeat("f", 64))))),
		"another reason":           ends("a", "b", receipts.KeyRotated, settled, content("rotated", "sold")),
		"rotated to nobody":        ends("a", "", receipts.KeyRetired, settled, content("retired", "rotated")),
		"another version":          ends("a", "b", receipts.KeyRotated, settled, content(`"version":1`, `"version":2`)),
		"a field too many":         ends("a", "b", receipts.KeyRotated, settled, content(`{`, `{"a":1,`)),
		"white space":              ends("a", "b", receipts.KeyRotated, settled, content(`{`, `{ `)),
		"a tag of another next":    ends("a", "b", receipts.KeyRotated, settled, tags(domain.KeyChange.Tag(), []string{"p", xOnly(person("c"))})),
		"no tag of the next":       ends("a", "b", receipts.KeyRotated, settled, tags(domain.KeyChange.Tag())),
		"two tags of the next":     ends("a", "b", receipts.KeyRotated, settled, tags(domain.KeyChange.Tag(), next, next)),
		"too large":                ends("a", "b", receipts.KeyRotated, settled, tags(domain.KeyChange.Tag(), next, []string{"x", strings.Repeat("x", receipts.MaxKeyStatementBytes)})),
		"a broken signature":       broken,
		"a changed time":           later,
		"accepted by a stranger":   acceptance(statement, "c"),
		"accepted by itself":       acceptance(statement, "a"),
		"accepted without a next":  acceptance(ends("a", "", receipts.KeyRetired, settled), "b"),
		"accepted, broken inside":  acceptance(broken, "b"),
		"accepted, changed inside": acceptance(later, "b"),
		"an acceptance accepted":   acceptance(acceptance(statement, "b"), "c"),
		"accepted, reordered":      acceptance(statement, "b", content(`{"id"`, `{ "id"`)),
		"accepted, no inside":      acceptance(statement, "b", func(ev *receipts.Event) { ev.Content = "" }),
		"accepted, another e":      acceptance(statement, "b", tags(domain.KeyAcceptance.Tag(), []string{"e", broken.Sig[:64]}, []string{"p", statement.PubKey})),
		"accepted, another p":      acceptance(statement, "b", tags(domain.KeyAcceptance.Tag(), []string{"e", statement.ID}, next)),
		"accepted, two domains":    acceptance(statement, "b", func(ev *receipts.Event) { ev.Tags = append(ev.Tags, domain.KeyChange.Tag()) }),
	} {
		if s, err := receipts.ParseKeyStatement(ev); !errors.Is(err, receipts.ErrInvalid) && !errors.Is(err, receipts.ErrMismatch) {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
		var h receipts.KeyHistory
		if _, err := h.Add(ev); err == nil {
			t.Errorf("%s: added", name)
		}
		if _, ended := h.End(xOnly(person("a"))); ended {
			t.Errorf("%s: it ends a key", name)
		}
	}
}

// TestKeyHistory: what several statements say together does not depend on their order,
// nor on how often each is there.
func TestKeyHistory(t *testing.T) {
	type end = receipts.KeyEnd
	at := func(s int64) time.Time { return time.Unix(s, 0).UTC() }
	a, b, c := xOnly(person("a")), xOnly(person("b")), xOnly(person("c"))
	byThief := ends("a", "b", receipts.KeyRotated, settled)
	for name, tt := range map[string]struct {
		events []receipts.Event
		ends   map[string]end
		leads  [][2]string
	}{
		"nothing":                {nil, nil, nil},
		"a rotation":             {rotation("a", "b", settled), map[string]end{a: {b, receipts.KeyRotated, at(settled)}}, [][2]string{{a, b}}},
		"not accepted":           {[]receipts.Event{byThief}, nil, nil},
		"retired":                {[]receipts.Event{ends("a", "", receipts.KeyRetired, settled)}, map[string]end{a: {"", receipts.KeyRetired, at(settled)}}, nil},
		"retired, not accepted":  {[]receipts.Event{ends("a", "b", receipts.KeyRetired, settled)}, map[string]end{a: {"", receipts.KeyRetired, at(settled)}}, nil},
		"retired after rotation": {append(rotation("a", "b", settled), ends("a", "", receipts.KeyRetired, settled+9)), map[string]end{a: {b, receipts.KeyRetired, at(settled)}}, [][2]string{{a, b}}},
		"dated back":             {append(rotation("a", "b", settled), ends("a", "", receipts.KeyRetired, 1)), map[string]end{a: {b, receipts.KeyRetired, at(1)}}, [][2]string{{a, b}}},
		"two next keys":          {append(rotation("a", "b", settled), rotation("a", "c", settled+1)...), map[string]end{a: {"", receipts.KeyRetired, at(settled)}}, nil},
		"three next keys": {
			slices.Concat(rotation("a", "b", settled), rotation("a", "c", settled+1), rotation("a", "d", settled-1)),
			map[string]end{a: {"", receipts.KeyRetired, at(settled - 1)}},
			nil,
		},
		"two rotations": {
			append(rotation("a", "b", settled), rotation("b", "c", settled+1)...),
			map[string]end{a: {b, receipts.KeyRotated, at(settled)}, b: {c, receipts.KeyRotated, at(settled + 1)}},
			[][2]string{{a, b}, {b, c}, {a, c}},
		},
		"a circle": {
			append(rotation("a", "b", settled), rotation("b", "a", settled+1)...),
			map[string]end{a: {b, receipts.KeyRotated, at(settled)}, b: {a, receipts.KeyRotated, at(settled + 1)}},
			[][2]string{{a, b}, {b, a}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 {
				events := append(slices.Clone(tt.events), tt.events...)
				rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
				var h receipts.KeyHistory
				for _, ev := range events {
					must(h.Add(ev))
				}
				for _, key := range []string{a, b, c} {
					got, ended := h.End(key)
					if want, ok := tt.ends[key]; ended != ok || got != want {
						t.Fatalf("%s: %+v (%v), want %+v", key, got, ended, want)
					}
					for _, to := range []string{a, b, c} {
						if want := key == to || slices.Contains(tt.leads, [2]string{key, to}); h.Leads(key, to) != want {
							t.Fatalf("%s leads to %s: %v", key, to, !want)
						}
					}
				}
			}
		})
	}
}

// TestReadKeyHistory: a file is read whole, or not at all, and the line is named.
func TestReadKeyHistory(t *testing.T) {
	good := lines(rotation("a", "b", settled)...)
	for name, tt := range map[string]struct {
		file string
		want string // of the error; "" if it is read
	}{
		"empty":           {"", ""},
		"a rotation":      {keyLines(good), ""},
		"no last newline": {strings.TrimSuffix(keyLines(good), "\n"), ""},
		"twice":           {keyLines(append(slices.Clone(good), good...)), ""},
		"an empty line":   {keyLines([]string{good[0], "", good[1]}), "line 2"},
		"another system":  {strings.ReplaceAll(keyLines(good), "\n", "\r\n"), "line 1"},
		"another form":    {keyLines([]string{good[0], strings.Replace(good[1], "{", "{ ", 1)}), "line 2"},
		"a receipt":       {keyLines([]string{string(recipe{}.make().bundle.ReceiptEvent)}), "line 1"},
		"too many":        {strings.Repeat(good[0]+"\n", 513), "more than"},
		"a long line":     {strings.Repeat("x", 1<<20), "line 1"},
	} {
		h, err := receipts.ReadKeyHistory([]byte(tt.file))
		if tt.want == "" && (err != nil || h == nil) || tt.want != "" && (h != nil || err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %v, %v", name, h, err)
		}
	}
}

func FuzzKeyHistory(f *testing.F) {
	f.Add([]byte(keyLines(lines(rotation("a", "b", settled)...))))
	f.Add([]byte(keyLines(lines(ends("a", "", receipts.KeyRetired, settled)))))
	f.Add([]byte(keyLines(lines(acceptance(acceptance(ends("a", "b", receipts.KeyRotated, settled), "b"), "c")))))
	f.Fuzz(func(t *testing.T, file []byte) {
		h, err := receipts.ReadKeyHistory(file)
		if err != nil {
			return
		}
		for line := range bytes.Lines(file) {
			ev := must(receipts.ParseEvent(bytes.TrimSuffix(line, []byte("\n")), len(line)))
			s := must(receipts.ParseKeyStatement(ev))
			if s.Accepted && ev.PubKey != s.Next || !s.Accepted && ev.PubKey != s.Key {
				t.Fatalf("%+v by %s", s, ev.PubKey)
			}
			if end, ok := h.End(s.Key); ok && end.At.After(s.At) && (s.Accepted || s.Reason == receipts.KeyRetired) {
				t.Fatalf("ends at %s, said %s", end.At, s.At)
			}
		}
	})
}

// TestChainsOfSeveralKeys: with a change, and asked for, the receipts of both keys are
// one chain, of which the first under the new key goes on behind the last of the old.
func TestChainsOfSeveralKeys(t *testing.T) {
	keys := []string{"old", "old", "middle", "new", "new"}
	six := chainOf(keys)
	npub := func(name string) string { return must(receipts.Npub(xOnly(person(name)))) }
	both := append(rotation("old", "middle", 1), rotation("middle", "new", 2)...)
	mixed := chainOf([]string{"old", "new", "old", "new"})
	fork := chainOf([]string{"old", "old", "old"})[2]

	for name, tt := range map[string]struct {
		reports []receipts.Report
		events  []receipts.Event
		also    []string
		want    []receipts.ChainReport
	}{
		"one history": {six, both, []string{npub("old")}, []receipts.ChainReport{{ProviderID: npub("new"), Before: []string{npub("old"), npub("middle")}, Receipts: 5, Last: 5}}},
		"by hex":      {six, both, []string{xOnly(person("new"))}, []receipts.ChainReport{{ProviderID: npub("new"), Before: []string{npub("old"), npub("middle")}, Receipts: 5, Last: 5}}},
		"a gap": {
			append(slices.Clone(six[:1]), six[3:]...), both,
			[]string{npub("old")},
			[]receipts.ChainReport{{ProviderID: npub("new"), Before: []string{npub("old")}, Receipts: 3, Last: 5, Missing: []receipts.Span{{From: 2, To: 3}}}},
		},
		"old and new in turn": {
			mixed, append(rotation("old", "new", 1), both...), []string{npub("old")}, nil, // two next keys: apart
		},
		"not in turn": {
			mixed, rotation("old", "new", 1),
			[]string{npub("old")},
			[]receipts.ChainReport{{
				ProviderID: npub("new"), Before: []string{npub("old")}, Receipts: 4, Last: 4,
				Faults: []string{"receipt 2 of " + npub("new") + " is not behind receipt 3 of the key before"},
			}},
		},
		"the old key goes on": {
			append(slices.Clone(six), fork), both,
			[]string{npub("new")},
			[]receipts.ChainReport{{
				ProviderID: npub("new"), Before: []string{npub("old"), npub("middle")}, Receipts: 6, Last: 5,
				Faults: []string{"receipt 3 of " + npub("middle") + " is not behind receipt 3 of the key before", "two receipts have the number 3"},
			}},
		},
		"not asked for":   {six, both, nil, nil},
		"another's asked": {six, both, []string{npub("stranger")}, nil},
		"no change known": {six, nil, []string{npub("old"), npub("new")}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var c receipts.Chains
			for _, r := range tt.reports {
				c.Add(r)
			}
			var h receipts.KeyHistory
			for _, ev := range tt.events {
				must(h.Add(ev))
			}
			got := c.Reports(&h, tt.also...)
			if tt.want == nil {
				if plain := c.Reports(nil); len(plain) != len(got) || len(got) < 2 {
					t.Errorf("%+v, without keys %+v", got, plain)
				}
				return
			}
			if len(got) != 1 {
				t.Fatalf("%+v", got)
			}
			slices.Sort(got[0].Faults)
			g, w := got[0], tt.want[0]
			if g.ProviderID != w.ProviderID || !slices.Equal(g.Before, w.Before) || g.Receipts != w.Receipts || g.Last != w.Last || !slices.Equal(g.Missing, w.Missing) || !slices.Equal(g.Faults, w.Faults) {
				t.Errorf("%+v, want %+v", g, w)
			}
		})
	}
}

// chainOf is a chain whose receipts are of these keys, in order.
func chainOf(keys []string) []receipts.Report {
	return chainedBy(len(keys), paidApart, func(i int64) *btcec.PrivateKey { return person(keys[i-1]) })
}
