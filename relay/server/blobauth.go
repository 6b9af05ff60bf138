package server

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// kindBlobAuth is the kind of an authorization event (BUD-01).
const kindBlobAuth = 24242

// clockSkew is how far a signer's clock may be ahead of ours.
const clockSkew = time.Minute

var (
	errAuthMissing  = errors.New("an Authorization header with a Nostr event is required")
	errAuthMalform  = errors.New("the authorization event is malformed")
	errAuthKind     = errors.New("the authorization event must be of kind 24242")
	errAuthFuture   = errors.New("the authorization event is not valid yet")
	errAuthExpired  = errors.New("the authorization event has expired, or no expiration tag")
	errAuthVerb     = errors.New("the authorization event is for another action")
	errAuthSig      = errors.New("the authorization event is not signed by its author")
	errAuthUploader = errors.New("this key may upload here only for an open quote: the authorization has to name the request in an e tag")
	errAuthServer   = errors.New("the authorization event is for another server")
)

// blobAuth is a checked authorization: the key that may do the action, and the blobs
// (hex) that it may be done to.
type blobAuth struct {
	pubkey string
	hashes []string
	room   string // into which a blob is to be stored, "" for none
	event  nostr.Event
}

// allows reports whether the event names the blob.
func (a blobAuth) allows(hash string) bool { return slices.Contains(a.hashes, hash) }

// authorize makes the checks of BUD-11, the signature last. names are the server's
// own names.
func authorize(r *http.Request, verb string, names []string, now time.Time) (blobAuth, error) {
	ev, err := authEvent(r.Header.Get("Authorization"))
	if err != nil {
		return blobAuth{}, err
	}
	if ev.Kind != kindBlobAuth { // 1. "The kind must be 24242"
		return blobAuth{}, errAuthKind
	}
	if ev.CreatedAt.Time().After(now.Add(clockSkew)) { // 2. "created_at must be in the past"
		return blobAuth{}, errAuthFuture
	}

	// 3. "The expiration tag must be set to a Unix timestamp in the future"
	if unix, ok := nip01.Expiration(&ev); !ok || unix <= now.Unix() {
		return blobAuth{}, errAuthExpired
	}
	if tag := ev.Tags.Find("t"); tag == nil || tag[1] != verb { // 4.
		return blobAuth{}, errAuthVerb
	}
	if err := checkServer(&ev, names); err != nil { // 5. "server" tags, where there are any
		return blobAuth{}, err
	}
	if nip01.Verify(&ev) != nil {
		return blobAuth{}, errAuthSig
	}

	auth := blobAuth{pubkey: ev.PubKey, event: ev}
	for tag := range ev.Tags.FindAll("x") {
		auth.hashes = append(auth.hashes, tag[1])
	}
	if tag := ev.Tags.Find("e"); tag != nil {
		if auth.room = tag[1]; !nostr.IsValid32ByteHex(auth.room) {
			return blobAuth{}, errAuthMalform
		}
	}
	return auth, nil
}

// checkServer reports whether the event may be used here. One that names servers is
// valid only there, so that none of them can use it at another. The Host that a client
// sends does not count, because the client may be such a server.
func checkServer(ev *nostr.Event, names []string) error {
	named := false
	for tag := range ev.Tags.FindAll("server") {
		named = true
		if slices.ContainsFunc(names, func(name string) bool { return domainOf(name) == domainOf(tag[1]) }) {
			return nil
		}
	}
	if named {
		return fmt.Errorf("%w: here it is server %s, or what the relay's public_url says", errAuthServer, domainOf(names[0]))
	}
	return nil
}

// domainOf removes the scheme and path that some clients add to a server's name.
func domainOf(server string) string {
	if _, rest, ok := strings.Cut(server, "://"); ok {
		server = rest
	}
	server, _, _ = strings.Cut(server, "/")
	if host, _, err := net.SplitHostPort(server); err == nil {
		server = host
	}
	return strings.ToLower(strings.Trim(server, "[]"))
}

// authEvent decodes the header. Clients use both alphabets of base64, with and
// without padding. The length was bounded by http.Server.
func authEvent(header string) (nostr.Event, error) {
	scheme, text, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Nostr") {
		return nostr.Event{}, errAuthMissing
	}
	text = strings.TrimRight(strings.TrimSpace(text), "=")
	text = strings.NewReplacer("-", "+", "_", "/").Replace(text)
	doc, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nostr.Event{}, errAuthMalform
	}
	ev, err := nip01.ParseEvent(doc, nip01.Limits{})
	if err != nil {
		return nostr.Event{}, errAuthMalform
	}
	return ev, nil
}
