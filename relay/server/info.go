package server

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
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

func (s *Server) document() document {
	l := s.cfg.Limits
	return document{
		Name:          s.cfg.Name,
		Description:   s.cfg.Description,
		PubKey:        s.cfg.PubKey,
		Contact:       s.cfg.Contact,
		SupportedNIPs: []int{1, 9, 11, 40},
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
			MaxContentLength:    l.MaxEventBytes,
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
