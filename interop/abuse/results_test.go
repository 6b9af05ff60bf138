package abuse_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
)

// TestForgedResults: whatever is published about a job before its provider says
// anything, by strangers or as something else than an answer, the buyer takes
// the provider's own result and no other.
func TestForgedResults(t *testing.T) {
	w := newWorld(t)
	s, stranger := newSeller(t, w), newSeller(t, w)
	p := w.buy(t, s.key, "free")
	req := s.asked()
	wrong, tags := s.result(req, "sky")

	// Strangers, as themselves and under the provider's name.
	content, theirs := stranger.result(req, "sky")
	stranger.put(stranger.sign(6050, content, theirs...))
	stranger.put(stranger.sign(6050, wrong, tags...))
	stranger.put(stranger.sign(7000, "", nostr.Tag{"status", "error", "canceled: by nobody"}, nostr.Tag{"e", req.ID}, nostr.Tag{"p", req.PubKey}))
	stranger.put(stranger.sign(7000, "", nostr.Tag{"status", "success"}, nostr.Tag{"e", req.ID}, nostr.Tag{"p", req.PubKey}))
	forged := stranger.sign(6050, wrong, tags...)
	forged.PubKey = s.key
	forged.ID = forged.GetID()
	if o := stranger.publish(forged); o.ok {
		t.Error("the relay takes a result with another's signature")
	}
	// The provider itself, of another kind, to another request, with another
	// request inside, and with another job's hash.
	other := stranger.sign(5050, "", req.Tags...)
	s.put(s.sign(6051, wrong, tags...))
	s.put(s.sign(6050, wrong, with(tags, "e", other.ID)...))
	s.put(s.sign(6050, wrong, append(slices.Clone(tags), nostr.Tag{"request", other.String()})...))
	s.put(s.sign(6050, wrong, with(tags, "job_hash", "sha256:"+strings.Repeat("0", 64))...))
	s.put(s.sign(6050, wrong, with(tags, "output_hash", "sha256:"+strings.Repeat("0", 64))...))

	right, tags := s.result(req, "fruit")
	s.put(s.sign(6050, right, append(tags, nostr.Tag{"request", req.String()})...))
	s.put(s.sign(7000, "", nostr.Tag{"status", "success"}, nostr.Tag{"e", req.ID}, nostr.Tag{"p", req.PubKey}))
	if o := outcomeOf(t, p); o.State != "done" || o.Provider != s.key || !strings.Contains(string(o.Output), "fruit") {
		t.Errorf("%+v", o)
	}
}

// with is tags with another value for one of them.
func with(tags nostr.Tags, name, value string) nostr.Tags {
	changed := slices.Clone(tags)
	for i, t := range changed {
		if t[0] == name {
			changed[i] = nostr.Tag{name, value}
		}
	}
	return changed
}
