package cashu

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// MessageTransport delivers payments to the keys of their payees.
type MessageTransport interface {
	// Send hands the message over for the key, 64 hex digits. No error means
	// that it is on its way, not that it was read.
	Send(ctx context.Context, to string, message []byte) error
	// Receive calls arrived with each message to our key until ctx ends. One
	// may come more than once.
	Receive(ctx context.Context, arrived func(message []byte)) error
}

// maxMessage bounds a message that is read, in bytes: what NIP-44 seals twice
// into an event that relays take.
const maxMessage = 40 << 10

// payload is NUT-18's PaymentRequestPayload; ID is the payment hash.
type payload struct {
	ID    string `json:"id"`
	Mint  string `json:"mint"`
	Unit  string `json:"unit"`
	Notes []note `json:"proofs"`
}

// unit is the one that is used here.
const unit = "sat"

func formatMessage(hash payments.Hash, mint string, notes []note) ([]byte, error) {
	doc, err := json.Marshal(payload{ID: hash.String(), Mint: payments.MintURL(mint), Unit: unit, Notes: notes})
	if err == nil && len(doc) > maxMessage {
		err = fmt.Errorf("%w: %d notes are too many for a message", payments.ErrAmount, len(notes))
	}
	return doc, err
}

// parseMessage reads a message from anybody. Fields that it does not know are
// other wallets' own.
func parseMessage(doc []byte, mint string) (hash payments.Hash, notes []note, err error) {
	if len(doc) > maxMessage {
		return hash, nil, fmt.Errorf("%w: %d bytes", ErrMessage, len(doc))
	}
	if err := hashing.Check(doc); err != nil {
		return hash, nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}

	var p payload
	if err := jsonv2.Unmarshal(doc, &p); err != nil {
		return hash, nil, fmt.Errorf("%w: %w", ErrMessage, hashing.Mismatch(err))
	}
	if hash, err = payments.ParseHash(p.ID); err != nil {
		return hash, nil, fmt.Errorf("%w: %w", ErrMessage, err)
	}
	if strings.TrimSuffix(p.Mint, "/") != payments.MintURL(mint) || p.Unit != unit {
		return hash, nil, fmt.Errorf("%w: notes of %q in %q", ErrMessage, printable(p.Mint), printable(p.Unit))
	}
	if len(p.Notes) == 0 || len(p.Notes) > maxNotes {
		return hash, nil, fmt.Errorf("%w: %d notes", ErrMessage, len(p.Notes))
	}

	seen := map[string]bool{}
	for _, n := range p.Notes {
		if n.Amount < 1 || n.Amount > maxSats || len(n.Secret) > 1024 || !knownID(n.Keyset) || seen[n.Secret] {
			return hash, nil, fmt.Errorf("%w: a note of %d sats, twice or too large", ErrMessage, n.Amount)
		}
		seen[n.Secret] = true
	}

	return hash, p.Notes, nil
}

// printable cuts a stranger's text to what a terminal may show.
func printable(s string) string { return payments.Printable(s, 200) }
