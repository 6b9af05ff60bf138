package server

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// document is the relay information document of NIP-11.
type document struct {
	Name          string     `json:"name"`
	Description   string     `json:"description"`
	PubKey        string     `json:"pubkey,omitempty"`
	Contact       string     `json:"contact,omitempty"`
	SupportedNIPs []int      `json:"supported_nips"`
	Software      string     `json:"software"`
	Version       string     `json:"version,omitempty"`
	Limitation    limitation `json:"limitation"`
	Retention     []retained `json:"retention,omitempty"`
}

// retained is a retention rule in the form that NIP-11 had for it. A time of 0
// means that such events are refused.
type retained struct {
	Kinds [][2]int `json:"kinds,omitempty"`
	Time  *int64   `json:"time,omitempty"` // seconds
	Count int      `json:"count,omitempty"`
}

func (r *Retention) announced() retained {
	a := retained{Count: r.MaxCount}
	for _, k := range r.Kinds {
		a.Kinds = append(a.Kinds, [2]int{k.First, k.Last})
	}
	if r.Refuse || r.MaxAge > 0 {
		seconds := int64(r.MaxAge.Seconds())
		a.Time = &seconds
	}
	return a
}

type limitation struct {
	MaxMessageLength    int   `json:"max_message_length"`
	MaxSubscriptions    int   `json:"max_subscriptions"`
	MaxFilters          int   `json:"max_filters"`
	MaxLimit            int   `json:"max_limit"`
	DefaultLimit        int   `json:"default_limit"`
	MaxSubIDLength      int   `json:"max_subid_length"`
	MaxEventTags        int   `json:"max_event_tags"`
	MaxContentLength    int   `json:"max_content_length"`
	MinPowDifficulty    int   `json:"min_pow_difficulty"`
	AuthRequired        bool  `json:"auth_required"`
	PaymentRequired     bool  `json:"payment_required"`
	RestrictedWrites    bool  `json:"restricted_writes"`
	CreatedAtLowerLimit int64 `json:"created_at_lower_limit"` // seconds before now
	CreatedAtUpperLimit int64 `json:"created_at_upper_limit"` // seconds after now
}

// leastEvent is the size of an event without tags and content, which MaxEventBytes
// includes.
func leastEvent() int {
	digits := strings.Repeat("0", 64)
	return len(nip01.Marshal(&nostr.Event{ID: digits, PubKey: digits, Sig: digits + digits, CreatedAt: 1_000_000_000}))
}

// nips are the NIPs that the relay implements and that its configuration enables.
func (s *Server) nips() []int {
	list := []int{1, 9, 11, 13, 40, 42, 45, 70}
	for kind, nip := range map[int]int{nostr.KindEncryptedDirectMessage: 4, nostr.KindGiftWrap: 59} {
		if s.private(kind) { // both must be served only to their parties
			list = append(list, nip)
		}
	}
	slices.Sort(list)
	return list
}

func (s *Server) document() document {
	l := s.cfg.Limits
	var rules []retained
	for i := range s.cfg.Retention {
		rules = append(rules, s.cfg.Retention[i].announced())
	}

	return document{
		Retention:     rules,
		Name:          s.cfg.Name,
		Description:   s.cfg.Description,
		PubKey:        s.cfg.PubKey,
		Contact:       s.cfg.Contact,
		SupportedNIPs: s.nips(),
		Software:      "https://github.com/lightwork-market/lightwork",
		Version:       s.cfg.Version,
		Limitation: limitation{
			MaxMessageLength:    l.MaxMessageBytes,
			MaxSubscriptions:    l.MaxSubscriptions,
			MaxFilters:          l.MaxFilters,
			MaxLimit:            l.MaxLimit,
			DefaultLimit:        l.MaxLimit,
			MaxSubIDLength:      l.MaxSubIDBytes,
			MaxEventTags:        l.MaxTags,
			MaxContentLength:    max(0, l.MaxEventBytes-leastEvent()),
			MinPowDifficulty:    l.MinPow,
			RestrictedWrites:    l.MinPow > 0,
			CreatedAtLowerLimit: int64(l.MaxAge.Seconds()),
			CreatedAtUpperLimit: int64(l.MaxAhead.Seconds()),
		},
	}
}

func (s *Server) serveInfo(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Vary", "Accept")
	if !strings.Contains(r.Header.Get("Accept"), "application/nostr+json") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "This is a Nostr relay: connect with a websocket.\n")
		return
	}
	w.Header().Set("Content-Type", "application/nostr+json")
	_ = json.NewEncoder(w).Encode(s.document()) // a client that left is no error
}
