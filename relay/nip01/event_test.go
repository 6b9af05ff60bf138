package nip01

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
)

// published are events that other programs signed and published.
var published = []string{
	`{"id":"dc90c95f09947507c1044e8f48bcf6350aa6bff1507dd4acfc755b9239b5c962","pubkey":"3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d","created_at":1644271588,"kind":1,"tags":[],"content":"now that https://blueskyweb.org/blog/2-7-2022-overview was announced we can stop working on nostr?","sig":"230e9d8f0ddaf7eb70b5f7741ccfa37e87a455c9a469282e3464e2052d3192cd63a167e196e381ef9d7e69e9ea43af2443b839974dc85d8aaab9efe1d9296524"}`,
	`{"id":"9e662bdd7d8abc40b5b15ee1ff5e9320efc87e9274d8d440c58e6eed2dddfbe2","pubkey":"373ebe3d45ec91977296a178d9f19f326c70631d2a1b0bbba5c5ecc2eb53b9e7","created_at":1644844224,"kind":3,"tags":[["p","3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"],["p","75fc5ac2487363293bd27fb0d14fb966477d0f1dbc6361d37806a6a740eda91e"],["p","46d0dfd3a724a302ca9175163bdf788f3606b3fd1bb12d5fe055d1e418cb60ea"]],"content":"{\"wss://nostr-pub.wellorder.net\":{\"read\":true,\"write\":true},\"wss://nostr.bitcoiner.social\":{\"read\":false,\"write\":true},\"wss://expensive-relay.fiatjaf.com\":{\"read\":true,\"write\":true},\"wss://relayer.fiatjaf.com\":{\"read\":true,\"write\":true},\"wss://relay.bitid.nz\":{\"read\":true,\"write\":true},\"wss://nostr.rocks\":{\"read\":true,\"write\":true}}","sig":"811355d3484d375df47581cb5d66bed05002c2978894098304f20b595e571b7e01b2efd906c5650080ffe49cf1c62b36715698e9d88b9e8be43029a2f3fa66be"}`,
}

const testSecret = "5ee1c8000ab28edd64d74a7d951ac2dd559814887b1b9e1ac7c5f89e96125c12"

func signed(t testing.TB, ev nostr.Event) nostr.Event {
	t.Helper()
	if err := ev.Sign(testSecret); err != nil {
		t.Fatal(err)
	}
	return ev
}

func TestPublishedEvents(t *testing.T) {
	for _, doc := range published {
		ev, err := ParseEvent([]byte(doc), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if err := Verify(&ev); err != nil {
			t.Errorf("%s: %v", ev.ID, err)
		}
		if got := string(Marshal(&ev)); got != doc {
			t.Errorf("marshalled:\n%s\nwant:\n%s", got, doc)
		}
	}
}

func TestSerialization(t *testing.T) {
	ev := nostr.Event{
		PubKey:    "ab",
		CreatedAt: 1700000000,
		Kind:      5050,
		Tags:      nostr.Tags{{"i", "a\"b\\c\n\r\t\b\f", "text"}, {"t", "\x01\x1f\x7f</script>\u2028é😀"}},
		Content:   "",
	}
	want := `[0,"ab",1700000000,5050,[["i","a\"b\\c\n\r\t\b\f","text"],["t","\u0001\u001f` + "\x7f</script>\u2028é😀" + `"]],""]`
	if got := string(AppendSerialization(nil, &ev)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestVerifyRefuses(t *testing.T) {
	good := signed(t, nostr.Event{Kind: 1, CreatedAt: 1700000000, Tags: nostr.Tags{{"t", "x"}}, Content: "hello"})
	if err := Verify(&good); err != nil {
		t.Fatal(err)
	}
	other := signed(t, nostr.Event{Kind: 1, CreatedAt: 1700000001, Content: "other"})
	for name, c := range map[string]struct {
		change func(*nostr.Event)
		want   error
	}{
		"content":         {func(ev *nostr.Event) { ev.Content = "Hello" }, ErrID},
		"time":            {func(ev *nostr.Event) { ev.CreatedAt++ }, ErrID},
		"tag":             {func(ev *nostr.Event) { ev.Tags = nil }, ErrID},
		"id upper case":   {func(ev *nostr.Event) { ev.ID = strings.ToUpper(ev.ID) }, ErrID},
		"id empty":        {func(ev *nostr.Event) { ev.ID = "" }, ErrID},
		"other's sig":     {func(ev *nostr.Event) { ev.Sig = other.Sig }, ErrSignature},
		"long sig":        {func(ev *nostr.Event) { ev.Sig += "00" }, ErrSignature},
		"short sig":       {func(ev *nostr.Event) { ev.Sig = ev.Sig[:126] }, ErrSignature},
		"sig not hex":     {func(ev *nostr.Event) { ev.Sig = strings.Repeat("z", 128) }, ErrSignature},
		"resigned id":     {func(ev *nostr.Event) { ev.Content = "x"; ev.ID = ID(ev) }, ErrSignature},
		"key off curve":   {func(ev *nostr.Event) { ev.PubKey = strings.Repeat("f", 64); ev.ID = ID(ev) }, ErrSignature},
		"pubkey too long": {func(ev *nostr.Event) { ev.PubKey += "00"; ev.ID = ID(ev) }, ErrSignature},
	} {
		t.Run(name, func(t *testing.T) {
			ev := good
			c.change(&ev)
			if err := Verify(&ev); !errors.Is(err, c.want) {
				t.Errorf("Verify = %v, want %v", err, c.want)
			}
		})
	}
}

func TestAddressAndExpiration(t *testing.T) {
	key := strings.Repeat("a", 64)
	for _, c := range []struct {
		kind int
		want string
	}{
		{0, "0:" + key + ":"},
		{3, "3:" + key + ":"},
		{10002, "10002:" + key + ":"},
		{31990, "31990:" + key + ":shop"},
		{1, ""},
		{5050, ""},
		{20001, ""},
		{40000, ""},
	} {
		ev := nostr.Event{Kind: c.kind, PubKey: key, Tags: nostr.Tags{{"d"}, {"d", "shop"}, {"d", "second"}}}
		if got, ok := Address(&ev); got != c.want || ok != (c.want != "") {
			t.Errorf("kind %d: %q %v, want %q", c.kind, got, ok, c.want)
		}
	}
	for text, want := range map[string]bool{"1700000000": true, "": false, "soon": false, "1e9": false} {
		ev := nostr.Event{Tags: nostr.Tags{{"expiration", text}}}
		if _, ok := Expiration(&ev); ok != want {
			t.Errorf("expiration %q: %v", text, ok)
		}
	}
}

// FuzzSerialization compares the id with go-nostr's and the object with what
// the parser reads back.
func FuzzSerialization(f *testing.F) {
	f.Add("hello", "t", "v", int64(1700000000), 1)
	f.Add("\x00\x1f\"\\\n", "\u2028", "😀", int64(0), 65535)
	f.Fuzz(func(t *testing.T, content, name, value string, at int64, kind int) {
		valid := func(s string) string { return strings.ToValidUTF8(s, "?") }
		ev := nostr.Event{
			PubKey:    strings.Repeat("a", 64),
			Sig:       strings.Repeat("b", 128),
			CreatedAt: nostr.Timestamp(at & maxTime),
			Kind:      kind & maxKind,
			Tags:      nostr.Tags{{valid(name), valid(value)}, {valid(value)}},
			Content:   valid(content),
		}
		ev.ID = ID(&ev)
		if want := ev.GetID(); ev.ID != want {
			t.Fatalf("id %s, go-nostr has %s", ev.ID, want)
		}
		back, err := ParseEvent(Marshal(&ev), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(ev, back); diff != "" {
			t.Fatal(diff)
		}
	})
}

func BenchmarkVerify(b *testing.B) {
	ev := signed(b, nostr.Event{Kind: 5050, CreatedAt: 1700000000, Content: strings.Repeat("x", 1024)})
	b.ReportAllocs()
	for b.Loop() {
		if err := Verify(&ev); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseClient(b *testing.B) {
	ev := signed(b, nostr.Event{
		Kind: 5050, CreatedAt: 1700000000, Content: strings.Repeat("x", 1024),
		Tags: nostr.Tags{{"p", strings.Repeat("a", 64)}, {"param", "schema", "oa.sandbox_run.v1"}},
	})
	doc := AppendEventMessage(nil, &ev)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseClient(doc, Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}
