package nostr_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/interop/outside"
)

// one is what a program said under this word.
func one(t *testing.T, lines []map[string]any, what string) map[string]any {
	t.Helper()
	for _, l := range lines {
		if l["what"] == what {
			return l
		}
	}
	t.Fatalf("nothing under %q", what)
	return nil
}

// TestNostrTools: its SimplePool and Relay on our relay.
func TestNostrTools(t *testing.T) {
	w := newWorld(t)
	p := outside.Node(t, "nostr-tools/read.mjs", w.Options())
	if code := p.Ended(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	lines := outside.Lines(t, p.Out.Text())
	t.Run("OK", func(t *testing.T) {
		checkWords(t, one(t, lines, "ok"), map[string]string{
			"again": "accepted", "forged": "invalid: ", "changed": "invalid: ", "ahead": "invalid: ",
			"expired": "invalid: ", "tags": "invalid: ", "large": "invalid: ",
		})
	})
	t.Run("REQ", func(t *testing.T) {
		checkLists(t, one(t, lines, "req"), map[string]string{
			"all": "c b a", "limited": "c b", "tagged": "c a", "window": "b", "byId": "b", "none": "",
		})
	})
	t.Run("live", func(t *testing.T) {
		checkLists(t, one(t, lines, "live"), map[string]string{"seen": "c b a EOSE live ephemeral", "stored": ""})
	})
	t.Run("kept", func(t *testing.T) {
		kept := one(t, lines, "kept")
		checkLists(t, kept, map[string]string{"replaceable": "new", "addressable": "new", "deleted": ""})
		checkWords(t, kept, map[string]string{"back": "blocked: "})
	})
	t.Run("CLOSED", func(t *testing.T) {
		checkWords(t, one(t, lines, "closed"), map[string]string{"filters": "invalid: ", "values": "invalid: ", "id": "invalid: "})
		checkWords(t, one(t, lines, "notice"), map[string]string{"label": "invalid: "})
	})
	nips := one(t, lines, "about")["nips"].([]any)
	for _, n := range nips {
		if n == 45. && one(t, lines, "count")["count"] != 3. { // b, c, live
			t.Errorf("COUNT: %v", one(t, lines, "count"))
		}
	}
}

// checkWords compares the beginnings of what the relay answered: the words
// after NIP-01's prefix may change.
func checkWords(t *testing.T, got map[string]any, want map[string]string) {
	t.Helper()
	for name, prefix := range want {
		if text, _ := got[name].(string); !strings.HasPrefix(text, prefix) {
			t.Errorf("%s: %q, want %q", name, got[name], prefix)
		}
	}
}

// checkLists compares lists of texts, written with spaces between.
func checkLists(t *testing.T, got map[string]any, want map[string]string) {
	t.Helper()
	for name, list := range want {
		var texts []string
		for _, v := range got[name].([]any) {
			texts = append(texts, v.(string))
		}
		if !reflect.DeepEqual(texts, strings.Fields(list)) && strings.Join(texts, " ") != list {
			t.Errorf("%s: %q, want %q", name, texts, list)
		}
	}
}

// TestApplesauce reads our relay while a job is bought there.
func TestApplesauce(t *testing.T) {
	w := newWorld(t)
	w.Sell(t)
	reader := outside.Node(t, "applesauce/read.mjs", w.Options())
	reader.Await(t, &reader.Out, `"reading"`)
	buyer := outside.Node(t, "nostr-tools/buy.mjs", w.Options("mode", "prepay", "name", "watched"))
	if code := buyer.Ended(t); code != 0 {
		t.Fatalf("buyer: exit code %d", code)
	}
	if code := reader.Ended(t); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	lines := outside.Lines(t, reader.Out.Text())
	bought := one(t, outside.Lines(t, buyer.Out.Text()), "announced")["provider"]
	if got := one(t, lines, "announced"); got["provider"] != bought || got["name"] != "a lightwork provider" {
		t.Errorf("announced %v, bought from %v", got, bought)
	}
	if nips := one(t, lines, "about")["nips"].([]any); len(nips) == 0 {
		t.Error("no NIPs in the relay's information document")
	}
	want := []any{5050., "payment-required", "processing", 6050., "success"}
	if got := one(t, lines, "seen")["seen"]; !reflect.DeepEqual(got, want) {
		t.Errorf("seen %v, want %v", got, want)
	}
}
