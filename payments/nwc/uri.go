package nwc

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"

	"github.com/nbd-wtf/go-nostr"
)

// ErrURI is wrapped by ParseURI for an invalid connection URI.
var ErrURI = errors.New("nwc: bad connection URI")

const (
	uriScheme    = "nostr+walletconnect"
	maxURILength = 4096
	maxRelays    = 8
)

// Connection is a parsed nostr+walletconnect:// URI. Whoever has it can spend, so
// it prints without its secret.
type Connection struct {
	Wallet string   // the wallet service's public key, 64 lower-case hex digits
	Relays []string // ws:// or wss://, 1 to 8
	Secret Secret   // the client's key
	LUD16  string   // a lightning address, or ""
}

// ParseURI parses a connection URI, with or without the two slashes. Errors never
// repeat it.
func ParseURI(text string) (Connection, error) {
	text = strings.TrimSpace(text)
	if len(text) > maxURILength {
		return Connection{}, fmt.Errorf("%w: longer than %d bytes", ErrURI, maxURILength)
	}
	scheme, rest, ok := strings.Cut(text, ":")
	if !ok || !strings.EqualFold(scheme, uriScheme) {
		return Connection{}, fmt.Errorf("%w: it does not begin with %s://", ErrURI, uriScheme)
	}
	wallet, query, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	wallet = strings.TrimSuffix(wallet, "/")
	if !nostr.IsValidPublicKey(wallet) {
		return Connection{}, fmt.Errorf("%w: the wallet's public key is not 64 lower-case hex digits of a key", ErrURI)
	}
	query, _, _ = strings.Cut(query, "#")
	values, err := url.ParseQuery(query)
	if err != nil {
		return Connection{}, fmt.Errorf("%w: the parameters do not parse", ErrURI)
	}
	return connection(wallet, values)
}

func connection(wallet string, values url.Values) (Connection, error) {
	c := Connection{Wallet: wallet, Relays: values["relay"], LUD16: values.Get("lud16")}
	if len(c.Relays) == 0 || len(c.Relays) > maxRelays {
		return Connection{}, fmt.Errorf("%w: it has %d relays, want 1 to %d", ErrURI, len(c.Relays), maxRelays)
	}

	for i, r := range c.Relays {
		u, err := url.Parse(r)
		if err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Hostname() == "" || u.User != nil {
			return Connection{}, fmt.Errorf("%w: relay %d is not a ws:// or wss:// address", ErrURI, i+1)
		}
	}

	if len(values["secret"]) != 1 {
		return Connection{}, fmt.Errorf("%w: it must have exactly one secret", ErrURI)
	}
	var err error
	if c.Secret, err = ParseSecret(values.Get("secret")); err != nil {
		return Connection{}, fmt.Errorf("%w: %w", ErrURI, err)
	}
	if c.Secret.PublicKey() == wallet {
		return Connection{}, fmt.Errorf("%w: the secret is the wallet's own key", ErrURI)
	}

	return c, nil
}

// URI returns the connection URI, including the secret.
func (c Connection) URI() string {
	values := url.Values{"relay": c.Relays, "secret": {c.Secret.Hex()}}
	if c.LUD16 != "" {
		values.Set("lud16", c.LUD16)
	}
	return uriScheme + "://" + c.Wallet + "?" + values.Encode()
}

func (c Connection) String() string {
	return fmt.Sprintf("wallet %s at %q", c.Wallet, c.Relays)
}

// GoString is String.
func (c Connection) GoString() string { return c.String() }

// LogValue is String.
func (c Connection) LogValue() slog.Value { return slog.StringValue(c.String()) }

// Format makes every verb of fmt print String.
func (c Connection) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, c.String()) }
