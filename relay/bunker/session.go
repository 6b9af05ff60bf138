package bunker

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/relay"
)

// maxRelays bounds the relays in an address or a key file.
const maxRelays = 16

// Address is an invitation to connect to a signer:
// bunker://KEY?relay=...&secret=...
type Address struct {
	Signer string // its key, hex
	Relays []string
	secret string // valid once
}

// ParseAddress parses a bunker address. Errors wrap ErrURI and do not quote it,
// because it contains a secret.
func ParseAddress(text string) (Address, error) {
	u, err := url.Parse(strings.TrimSpace(text))
	if err != nil || u.Scheme != "bunker" {
		return Address{}, fmt.Errorf("%w: want bunker://KEY?relay=wss://HOST&secret=TEXT", ErrURI)
	}
	q := u.Query()

	a := Address{Signer: strings.ToLower(u.Hostname()), Relays: q["relay"], secret: q.Get("secret")}
	switch {
	case !nostr.IsValidPublicKey(a.Signer):
		return Address{}, fmt.Errorf("%w: its key is not 64 hex digits", ErrURI)
	case len(a.Relays) == 0 || len(a.Relays) > maxRelays:
		return Address{}, fmt.Errorf("%w: it names %d relays, want 1 to %d", ErrURI, len(a.Relays), maxRelays)
	}

	return a, nil
}

// String leaves the secret out.
func (a Address) String() string { return "bunker://" + a.Signer }

// Session is an established connection to a signer; it is stored in a key file.
type Session struct {
	Signer string   // key of the signer, hex
	User   string   // the key that it signs with, hex; pinned when it was connected
	Relays []string // on which it listens
	Kinds  []int    // of events that it may be asked to sign
	client *relay.Key
}

// sessionFile is a Session in a key file.
type sessionFile struct {
	Bunker string   `json:"bunker"`
	User   string   `json:"user"`
	Client string   `json:"client_nsec"`
	Relays []string `json:"relays"`
	Kinds  []int    `json:"kinds"`
}

// IsSession reports whether a key file contains a connection to a signer.
func IsSession(text string) bool { return strings.HasPrefix(text, "{") }

// ParseSession parses the output of Text. Errors wrap ErrSession and quote nothing.
func ParseSession(text string) (Session, error) {
	var f sessionFile
	if err := hashing.Unmarshal([]byte(text), &f); err != nil {
		return Session{}, fmt.Errorf("%w: it does not parse", ErrSession)
	}

	client, err := relay.ParseKey(f.Client)
	switch {
	case err != nil:
		return Session{}, fmt.Errorf("%w: client_nsec: %w", ErrSession, err)
	case !nostr.IsValidPublicKey(f.Bunker) || !nostr.IsValidPublicKey(f.User):
		return Session{}, fmt.Errorf("%w: bunker and user must be public keys in hex", ErrSession)
	case len(f.Relays) == 0 || len(f.Relays) > maxRelays:
		return Session{}, fmt.Errorf("%w: it names %d relays", ErrSession, len(f.Relays))
	}

	return Session{Signer: f.Bunker, User: f.User, Relays: f.Relays, Kinds: f.Kinds, client: client}, nil
}

// Text returns the content for a key file. It contains the secret that
// authenticates us to the signer, not the signer's key.
func (s Session) Text() (string, error) {
	secret, err := s.client.NSEC()
	if err != nil {
		return "", err
	}
	doc, err := json.Marshal(sessionFile{s.Signer, s.User, secret, s.Relays, s.Kinds})
	return string(doc), err
}

// permissions lists the requested permissions: each kind, and both encryption
// schemes.
func permissions(kinds []int) string {
	list := []string{methodEncrypt, methodDecrypt, methodEncrypt04, methodDecrypt04}
	for _, k := range kinds {
		list = append(list, fmt.Sprintf("%s:%d", methodSign, k))
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
