package receipts_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/receipts"
)

// Two events that were published on public relays years ago.
const (
	publicNote = `{"id":"dc90c95f09947507c1044e8f48bcf6350aa6bff1507dd4acfc755b9239b5c962","pubkey":"3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d","created_at":1644271588,"kind":1,"tags":[],"content":"now that https://blueskyweb.org/blog/2-7-2022-overview was announced we can stop working on nostr?","sig":"230e9d8f0ddaf7eb70b5f7741ccfa37e87a455c9a469282e3464e2052d3192cd63a167e196e381ef9d7e69e9ea43af2443b839974dc85d8aaab9efe1d9296524"}`
	publicList = `{"id":"9e662bdd7d8abc40b5b15ee1ff5e9320efc87e9274d8d440c58e6eed2dddfbe2","pubkey":"373ebe3d45ec91977296a178d9f19f326c70631d2a1b0bbba5c5ecc2eb53b9e7","created_at":1644844224,"kind":3,"tags":[["p","3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"],["p","75fc5ac2487363293bd27fb0d14fb966477d0f1dbc6361d37806a6a740eda91e"],["p","46d0dfd3a724a302ca9175163bdf788f3606b3fd1bb12d5fe055d1e418cb60ea"]],"content":"{\"wss://nostr-pub.wellorder.net\":{\"read\":true,\"write\":true},\"wss://nostr.bitcoiner.social\":{\"read\":false,\"write\":true},\"wss://expensive-relay.fiatjaf.com\":{\"read\":true,\"write\":true},\"wss://relayer.fiatjaf.com\":{\"read\":true,\"write\":true},\"wss://relay.bitid.nz\":{\"read\":true,\"write\":true},\"wss://nostr.rocks\":{\"read\":true,\"write\":true}}","sig":"811355d3484d375df47581cb5d66bed05002c2978894098304f20b595e571b7e01b2efd906c5650080ffe49cf1c62b36715698e9d88b9e8be43029a2f3fa66be"}`
)

func TestPublicEvents(t *testing.T) {
	for name, doc := range map[string]string{"note": publicNote, "list": publicList} {
		ev, err := receipts.ParseEvent([]byte(doc), 4096)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := ev.Verify(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if ev.ComputeID() != ev.ID {
			t.Errorf("%s: id %s", name, ev.ComputeID())
		}
		if got := string(ev.JSON()); got != doc {
			t.Errorf("%s: JSON is\n%s", name, got)
		}
	}
}

// The ids were computed with another implementation's JSON encoder.
func TestEventIDEscaping(t *testing.T) {
	const key = "3bf0c63fcb93463407af97a5e5ee64fa883d107ef9e558472c4eb9aaaefa459d"
	tricky := "a\"b\\c\nd\re\tf\bg\fh/<&>\u007f\u2028é😀"
	ev := receipts.Event{PubKey: key, CreatedAt: 1_700_000_000, Kind: 1, Content: tricky, Tags: [][]string{{"t", tricky}, {}}}
	if got := ev.ComputeID(); got != "4d0ca5e2a00ed33e057703ef96feb2de7a145efc13c56d287c1b13db1ed4c4ab" {
		t.Errorf("id %s", got)
	}
	// NIP-01 wants other control characters verbatim.
	ev = receipts.Event{PubKey: key, CreatedAt: 1_700_000_000, Kind: 1, Content: "x\x01\x1fy"}
	if got := ev.ComputeID(); got != "a8ad820463e062b1bb331512ab7b20d03484b284efbb68b3774b0fa1aa348542" {
		t.Errorf("id with control characters %s", got)
	}
}

// Most clients escape all control characters; their events verify as well.
func TestVerifyTakesBothEscapings(t *testing.T) {
	ev := receipts.Event{CreatedAt: 1_700_000_000, Kind: 1, Content: "x\x01\x1fy"}
	sign(&ev, person("client"))
	if err := ev.Verify(); err != nil {
		t.Fatal(err)
	}
	again, err := receipts.ParseEvent(ev.JSON(), 4096)
	if err != nil || again.Content != ev.Content {
		t.Fatalf("%q, %v", again.Content, err)
	}
}

func TestEventVerifyRefuses(t *testing.T) {
	good := must(receipts.ParseEvent([]byte(publicNote), 4096))
	for name, change := range map[string]func(*receipts.Event){
		"content":           func(e *receipts.Event) { e.Content += "!" },
		"tag":               func(e *receipts.Event) { e.Tags = [][]string{{"e", "x"}} },
		"empty tag":         func(e *receipts.Event) { e.Tags = [][]string{{}} },
		"kind":              func(e *receipts.Event) { e.Kind++ },
		"created_at":        func(e *receipts.Event) { e.CreatedAt++ },
		"id":                func(e *receipts.Event) { e.ID = strings.Repeat("0", 64) },
		"pubkey":            func(e *receipts.Event) { e.PubKey = xOnly(person("stranger")) },
		"pubkey, id fitted": func(e *receipts.Event) { e.PubKey = xOnly(person("stranger")); e.ID = e.ComputeID() },
		"content, id fitted": func(e *receipts.Event) {
			e.Content += "!"
			e.ID = e.ComputeID()
		},
		"key off the curve": func(e *receipts.Event) { e.PubKey = strings.Repeat("f", 64); e.ID = e.ComputeID() },
		"sig zero":          func(e *receipts.Event) { e.Sig = strings.Repeat("0", 128) },
		"sig short":         func(e *receipts.Event) { e.Sig = e.Sig[:126] },
		"sig r too large":   func(e *receipts.Event) { e.Sig = strings.Repeat("f", 64) + e.Sig[64:] },
		"upper-case id":     func(e *receipts.Event) { e.ID = strings.ToUpper(e.ID) },
		"negative time":     func(e *receipts.Event) { e.CreatedAt = -1 },
		"kind 65536":        func(e *receipts.Event) { e.Kind = 65536 },
	} {
		ev := good
		change(&ev)
		if err := ev.Verify(); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseEventRefuses(t *testing.T) {
	change := func(old, new string) string { return strings.Replace(publicNote, old, new, 1) }
	for name, doc := range map[string]string{
		"empty":             "",
		"not an object":     "[]",
		"null":              "null",
		"unknown field":     change(`"kind"`, `"x":1,"kind"`),
		"second name case":  change(`"kind":1`, `"kind":1,"Kind":2`),
		"duplicate key":     change(`"kind":1`, `"kind":1,"kind":2`),
		"missing sig":       change(`,"sig":"230e`, `,"sig2":"230e`),
		"null content":      change(`"content":"`, `"content":null,"c":"`),
		"null tags":         change(`"tags":[]`, `"tags":null`),
		"null tag":          change(`"tags":[]`, `"tags":[null]`),
		"null in a tag":     change(`"tags":[]`, `"tags":[["e",null]]`),
		"number in a tag":   change(`"tags":[]`, `"tags":[["e",1]]`),
		"kind as string":    change(`"kind":1`, `"kind":"1"`),
		"fractional kind":   change(`"kind":1`, `"kind":1.5`),
		"upper-case pubkey": change(`3bf0c63f`, `3BF0C63F`),
		"lone surrogate":    change(`"content":"`, `"content":"\ud800`),
		"invalid UTF-8":     change(`"content":"`, "\"content\":\"\xff"),
		"trailing data":     publicNote + "{}",
		"too many tags":     change(`"tags":[]`, `"tags":[`+strings.Repeat("[],", 2000)+`[]]`),
		"too long a tag":    change(`"tags":[]`, `"tags":[[`+strings.Repeat(`"",`, 1000)+`""]]`),
	} {
		if _, err := receipts.ParseEvent([]byte(doc), 1<<20); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := receipts.ParseEvent([]byte(publicNote), len(publicNote)-1); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("over the limit: %v", err)
	}
}

func TestEventInsideOtherJSON(t *testing.T) {
	var list []receipts.Event
	if err := json.Unmarshal([]byte("["+publicNote+"]"), &list); err != nil || len(list) != 1 {
		t.Fatal(err)
	}
	if err := list[0].Verify(); err != nil {
		t.Error(err)
	}
	if out := must(json.Marshal(list[0])); string(out) != publicNote {
		t.Errorf("%s", out)
	}
}

func TestNpub(t *testing.T) {
	const (
		hexKey = "7e7e9c42a91bfef19fa929e5fda1b72e0ebc1a4c1141673e2794234d86addf4e" // from NIP-19
		npub   = "npub10elfcs4fr0l0r8af98jlmgdh9c8tcxjvz9qkw038js35mp4dma8qzvjptg"
	)
	if got, err := receipts.Npub(hexKey); err != nil || got != npub {
		t.Errorf("Npub: %s, %v", got, err)
	}
	if got, err := receipts.ParseNpub(npub); err != nil || got != hexKey {
		t.Errorf("ParseNpub: %s, %v", got, err)
	}
	_, groups, err := bech32.Decode(npub)
	if err != nil {
		t.Fatal(err)
	}
	otherSum, _ := bech32.EncodeM("npub", groups)
	groups[51]++
	padded, _ := bech32.Encode("npub", groups)
	for _, bad := range []string{
		"", "npub1", strings.ToUpper(npub), npub[:62] + "f", npub + "q", otherSum, padded,
		"nsec1vl029mgpspedva04g90vltkh6fvh240zqtv9k0t9af8935ke9laqsnlfe5", hexKey,
	} {
		if _, err := receipts.ParseNpub(bad); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("ParseNpub(%q): %v", bad, err)
		}
	}
	for _, bad := range []string{"", hexKey[1:], strings.ToUpper(hexKey)} {
		if _, err := receipts.Npub(bad); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("Npub(%q): %v", bad, err)
		}
	}
	for _, good := range []string{hexKey, npub} {
		if got, err := receipts.ParseKey(good); err != nil || got != hexKey {
			t.Errorf("ParseKey(%s): %s, %v", good, got, err)
		}
	}
	if _, err := receipts.ParseKey(strings.Repeat("f", 64)); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("a key off the curve: %v", err)
	}
}
