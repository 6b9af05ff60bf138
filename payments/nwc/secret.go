package nwc

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/relay"
)

// ErrSecret is returned for text other than 64 hex digits of a secret key.
var ErrSecret = errors.New("nwc: not a secret key of 64 hex digits")

// Secret is our key for a connection. It prints as its public key; only Hex returns
// the secret.
type Secret struct {
	key *relay.Key
	// text returns the secret. It is a function because functions print as
	// addresses and are left out of JSON, even if the Secret is a field of another
	// value.
	text func() string
}

// NewSecret returns a new key.
func NewSecret() (Secret, error) {
	k, err := btcec.NewPrivateKey()
	if err != nil {
		return Secret{}, fmt.Errorf("make connection key: %w", err)
	}
	return ParseSecret(hex.EncodeToString(k.Serialize()))
}

// ParseSecret parses 64 hex digits. Its error never repeats them.
func ParseSecret(text string) (Secret, error) {
	if len(text) != 64 {
		return Secret{}, ErrSecret
	}
	k, err := relay.ParseKey(text)
	if err != nil {
		return Secret{}, ErrSecret
	}
	return Secret{key: k, text: func() string { return text }}, nil
}

// Hex returns the secret in hex.
func (s Secret) Hex() string { return s.text() }

// PublicKey returns the public key in hex, "" for the zero Secret.
func (s Secret) PublicKey() string {
	if s.key == nil {
		return ""
	}
	return s.key.PublicKey()
}

// sign signs an event of the connection.
func (s Secret) sign(ev *nostr.Event) error {
	ev.Tags = append(ev.Tags, domain.Wallet.Tag())
	return s.key.Sign(context.Background(), ev)
}

func (s Secret) String() string { return "key of " + s.PublicKey() }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// LogValue is String.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// Format makes every verb of fmt print String.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }
