package server

import (
	"crypto/rand"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

const (
	// authWindow is how far created_at of an authentication may differ from our
	// time.
	authWindow = 10 * time.Minute
	// maxKeys bounds the keys of one connection: each is looked for in every
	// private event.
	maxKeys = 16
)

// identity holds the keys that a client has authenticated with (NIP-42).
type identity struct {
	hosts     []string // names of this relay that a relay tag may have
	challenge string   // empty until one was sent; the client's reader owns it

	// proved are public keys. The client's reader replaces the list; other
	// goroutines read it.
	proved atomic.Pointer[[]string]
}

func (i *identity) keys() []string {
	if list := i.proved.Load(); list != nil {
		return *list
	}
	return nil
}

// party reports whether one of the client's keys is the event's author or named in
// one of its p tags.
func (i *identity) party(ev *nostr.Event) bool {
	for _, key := range i.keys() {
		if ev.PubKey == key || ev.Tags.FindWithValue("p", key) != nil {
			return true
		}
	}
	return false
}

// accept adds the key of an AUTH message, or returns the reason to refuse it. It calls
// verify last, because a signature costs the most.
func (i *identity) accept(ev *nostr.Event, now time.Time, verify func(*nostr.Event) error) (reason string) {
	keys := i.keys()
	switch off := now.Sub(ev.CreatedAt.Time()).Abs(); {
	case ev.Kind != nostr.KindClientAuthentication:
		return "invalid: an AUTH message carries an event of kind 22242"
	case off > authWindow:
		return "invalid: created_at is more than 10 minutes from now"
	case i.challenge == "" || ev.Tags.FindWithValue("challenge", i.challenge) == nil:
		return "invalid: the challenge tag is not the challenge of this connection"
	case !i.names(ev.Tags.Find("relay")):
		return "invalid: the relay tag must name ws://" + i.hosts[0] + " or wss://" + i.hosts[0]
	case slices.Contains(keys, ev.PubKey):
		return ""
	case len(keys) == maxKeys:
		return "restricted: too many keys on one connection"
	}

	if err := verify(ev); err != nil {
		return "invalid: " + err.Error()
	}
	more := append(slices.Clone(keys), ev.PubKey)
	i.proved.Store(&more)
	return ""
}

// names reports whether a relay tag names this relay. It compares with the relay's own
// names and not with the one that the client connected to: a relay in the middle could
// otherwise pass a client's proof on as its own.
func (i *identity) names(tag nostr.Tag) bool {
	if len(tag) < 2 {
		return false
	}
	u, err := url.Parse(tag[1])
	if err != nil || (u.Scheme != "ws" && u.Scheme != "wss") || u.Path != "" && u.Path != "/" {
		return false
	}
	return slices.Contains(i.hosts, hostOf(u))
}

// hostOf returns host and port of an address, without the scheme's default port.
func hostOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	switch u.Scheme {
	case "ws", "http":
		return strings.TrimSuffix(host, ":80")
	}
	return strings.TrimSuffix(host, ":443")
}

// localAddress returns the local address of a request's connection.
func localAddress(r *http.Request) net.Addr {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil { // not served by an http.Server
		local = &net.TCPAddr{}
	}
	return local
}

// hostNames returns the names by which this relay is known: that of the public URL,
// and the local address of the connection.
func hostNames(publicURL string, local net.Addr) []string {
	var names []string
	if u, err := url.Parse(publicURL); err == nil && u.Host != "" {
		names = append(names, hostOf(u))
	}
	tcp, ok := local.(*net.TCPAddr)
	if !ok {
		return append(names, local.String())
	}
	names = append(names, tcp.String())
	if tcp.IP.IsLoopback() {
		names = append(names, net.JoinHostPort("localhost", strconv.Itoa(tcp.Port)))
	}
	return names
}

// authenticate answers an AUTH message.
func (c *client) authenticate(ev *nostr.Event) {
	reason := c.identity.accept(ev, time.Now(), func(ev *nostr.Event) error {
		// As for events, no more signatures are checked at once than there are
		// processors.
		c.srv.authChecks <- struct{}{}
		defer func() { <-c.srv.authChecks }()
		return nip01.Verify(ev)
	})
	c.sendOK(ev.ID, reason == "", reason)
}

// demandAuth sends the challenge, to which the following refusal refers.
func (c *client) demandAuth() {
	if c.identity.challenge == "" {
		c.identity.challenge = rand.Text()
	}
	c.send(frame{text: nip01.AppendLabelled(nil, nip01.LabelAuth, c.identity.challenge)})
}
