package cashu

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	jsonv2 "github.com/go-json-experiment/json"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// maxNotes bounds the notes of one request or payment.
const maxNotes = 200

// note is a proof (NUT-00): the mint's signature on a secret, worth Amount sats.
type note struct {
	Amount  int64  `json:"amount"`
	Keyset  string `json:"id"`
	Secret  string `json:"secret"`
	C       string `json:"C"`
	DLEQ    *dleq  `json:"dleq,omitempty"`
	Witness string `json:"witness,omitempty"`
}

// dleq proves offline that the mint's key made a signature (NUT-12). R is the
// blinding factor; it is set in a note but not in a blind signature.
type dleq struct {
	E string `json:"e"`
	S string `json:"s"`
	R string `json:"r,omitempty"`
}

// blindedMessage is a message for the mint to sign (NUT-00).
type blindedMessage struct {
	Amount int64  `json:"amount"`
	Keyset string `json:"id"`
	B      string `json:"B_"`
}

// blindSignature is the mint's signature on a blindedMessage.
type blindSignature struct {
	Amount int64  `json:"amount"`
	Keyset string `json:"id"`
	C      string `json:"C_"`
	DLEQ   *dleq  `json:"dleq,omitempty"`
}

// output is a future note: it has everything for sending its blinded message again
// and for unblinding the answer. Locked outputs are for the payee, the others are
// ours.
type output struct {
	Amount int64  `json:"amount"`
	Keyset string `json:"id"`
	Secret string `json:"secret"`
	R      string `json:"r"`
	B      string `json:"B_"`
	Locked bool   `json:"locked,omitempty"`
}

func (o output) message() blindedMessage { return blindedMessage{o.Amount, o.Keyset, o.B} }

// newOutput blinds a secret.
func newOutput(sats int64, keyset, secret string, r *btcec.ModNScalar) (output, error) {
	b, err := blind(secret, r)
	if err != nil {
		return output{}, err
	}
	return output{Amount: sats, Keyset: keyset, Secret: secret, R: scalarText(r), B: pointText(b)}, nil
}

// note unblinds the mint's signature and checks that its key for this amount made
// it. A signature without a DLEQ proof is refused, because it could not be checked.
func (o output) note(sig blindSignature, k *keyset) (note, error) {
	if sig.Amount != o.Amount || sig.Keyset != o.Keyset || k.id != o.Keyset {
		return note{}, fmt.Errorf("%w: %d sats of %q signed in place of %d of %s", ErrMint, sig.Amount, printable(sig.Keyset), o.Amount, o.Keyset)
	}
	key, ok := k.keys[o.Amount]
	if !ok || sig.DLEQ == nil {
		return note{}, fmt.Errorf("%w: a signature without proof", ErrMint)
	}
	signed, errC := parsePoint(sig.C)
	blinded, errB := parsePoint(o.B)
	e, errE := parseScalar(sig.DLEQ.E)
	s, errS := parseScalar(sig.DLEQ.S)
	r, errR := parseScalar(o.R)
	if err := firstError(errC, errB, errE, errS, errR); err != nil {
		return note{}, fmt.Errorf("%w: %w", ErrMint, err)
	}
	if !verifyDLEQ(e, s, key, blinded, signed) {
		return note{}, fmt.Errorf("%w: a signature that is not by its key", ErrMint)
	}

	c, err := unblind(signed, r, key)
	if err != nil {
		return note{}, fmt.Errorf("%w: %w", ErrMint, err)
	}

	return note{
		Amount: o.Amount, Keyset: o.Keyset, Secret: o.Secret, C: pointText(c),
		DLEQ: &dleq{E: sig.DLEQ.E, S: sig.DLEQ.S, R: o.R},
	}, nil
}

// check verifies offline that the mint signed the note, with the proof in the note.
// It does not show that the note is unspent.
func (n note) check(k *keyset) error {
	key, ok := k.keys[n.Amount]
	if !ok || k.id != n.Keyset || n.DLEQ == nil {
		return fmt.Errorf("%w: no key for %d sats, or no proof", ErrNote, n.Amount)
	}
	c, errC := parsePoint(n.C)
	e, errE := parseScalar(n.DLEQ.E)
	s, errS := parseScalar(n.DLEQ.S)
	r, errR := parseScalar(n.DLEQ.R)
	if err := firstError(errC, errE, errS, errR); err != nil {
		return fmt.Errorf("%w: %w", ErrNote, err)
	}
	blinded, errB := blind(n.Secret, r)
	signed, errC := reblind(c, r, key)
	if err := firstError(errB, errC); err != nil {
		return fmt.Errorf("%w: %w", ErrNote, err)
	}
	if !verifyDLEQ(e, s, key, blinded, signed) {
		return fmt.Errorf("%w: the proof is not of this note", ErrNote)
	}

	return nil
}

// y identifies the note to the mint without revealing its signature (NUT-07).
func (n note) y() (string, error) {
	p, err := hashToCurve([]byte(n.Secret))
	if err != nil {
		return "", err
	}
	return pointText(p), nil
}

func total(notes []note) (sats int64) {
	for _, n := range notes {
		sats += n.Amount
	}
	return sats
}

// MessageTransport delivers payments to the keys of their payees.
type MessageTransport interface {
	// Send hands over a message for a key, 64 hex digits. A nil error means that
	// the message was sent, not that it was read.
	Send(ctx context.Context, to string, message []byte) error
	// Receive calls arrived with each message to our key until ctx ends. A message
	// may arrive more than once.
	Receive(ctx context.Context, arrived func(message []byte)) error
}

// maxMessage bounds a received message in bytes: the most that fits, sealed twice
// with NIP-44, into an event that relays accept.
const maxMessage = 40 << 10

// payload is the PaymentRequestPayload of NUT-18; ID is the payment hash.
type payload struct {
	ID    string `json:"id"`
	Mint  string `json:"mint"`
	Unit  string `json:"unit"`
	Notes []note `json:"proofs"`
}

// unit is the only supported unit.
const unit = "sat"

func formatMessage(hash payments.Hash, mint string, notes []note) ([]byte, error) {
	doc, err := json.Marshal(payload{ID: hash.String(), Mint: payments.MintURL(mint), Unit: unit, Notes: notes})
	if err == nil && len(doc) > maxMessage {
		err = fmt.Errorf("%w: %d notes are too many for a message", payments.ErrAmount, len(notes))
	}
	return doc, err
}

// parseMessage parses an untrusted message. Unknown fields are ignored.
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
		if n.Amount < 1 || n.Amount > maxSats || len(n.Secret) > 1024 || !isKeysetID(n.Keyset) || seen[n.Secret] {
			return hash, nil, fmt.Errorf("%w: a note of %d sats, twice or too large", ErrMessage, n.Amount)
		}
		seen[n.Secret] = true
	}

	return hash, p.Notes, nil
}
