package bunker

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay"
)

// maxRelays bounds what an address or a key file names.
const maxRelays = 16

// Address is where a signer lets somebody connect: bunker://KEY?relay=...&secret=...
type Address struct {
	Signer string // its key, hex
	Relays []string
	secret string // good once
}

// ParseAddress reads a bunker address. Errors wrap ErrURI and do not quote it:
// it holds a secret.
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

// Session is a connection that a signer has agreed to; a key file holds it.
type Session struct {
	Signer string   // key of the signer, hex
	User   string   // key it signs with, hex; pinned when it was connected
	Relays []string // where it listens
	Kinds  []int    // of events that it was asked to sign
	client *relay.Key
}

// sessionFile is a Session as its key file has it.
type sessionFile struct {
	Bunker string   `json:"bunker"`
	User   string   `json:"user"`
	Client string   `json:"client_nsec"`
	Relays []string `json:"relays"`
	Kinds  []int    `json:"kinds"`
}

// IsSession reports whether a key file's text is a connection to a signer.
func IsSession(text string) bool { return strings.HasPrefix(text, "{") }

// ParseSession reads what Text wrote. Errors wrap ErrSession and quote nothing.
func ParseSession(text string) (Session, error) {
	var f sessionFile
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&f); err != nil {
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

// Text is what belongs into a key file. It holds the secret by which the signer
// knows us, not the key that it keeps.
func (s Session) Text() (string, error) {
	secret, err := s.client.NSEC()
	if err != nil {
		return "", err
	}
	doc, err := json.Marshal(sessionFile{s.Signer, s.User, secret, s.Relays, s.Kinds})
	return string(doc), err
}

// permissions is what is requested of the signer: each kind, and both ciphers.
func permissions(kinds []int) string {
	list := []string{methodEncrypt, methodDecrypt, methodEncrypt04, methodDecrypt04}
	for _, k := range kinds {
		list = append(list, fmt.Sprintf("%s:%d", methodSign, k))
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}
