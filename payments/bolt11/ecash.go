package bolt11

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// Ecash are the terms of an invoice that is paid in Cashu notes. Such an invoice has the
// prefix lncashu, which no Lightning wallet pays, and these terms in canonical JSON as
// its metadata; otherwise it follows BOLT 11. The payer sends notes of the mint, locked
// (NUT-14) to the payment hash and the payee's key, in a message (NUT-18, NIP-17) to
// that key over the relays.
type Ecash struct {
	Mint        string   `json:"mint"`   // as payments.CashuNetwork has it
	LockSeconds int64    `json:"lock"`   // least time for which the notes must be locked
	Relays      []string `json:"relays"` // ws:// or wss://, one to four
}

// Bounds of the terms: a week, and what fits into one field.
const (
	maxLockSeconds = 7 * 24 * 3600
	maxEcashRelays = 4
	maxEcashBytes  = 639 // of 1023 groups
)

// cashuLetters is the prefix of all mints; the terms name the mint.
const cashuLetters = "cashu"

// network is the mint's, or what is wrong with the terms.
func (e *Ecash) network() (payments.Network, error) {
	n, err := payments.CashuNetwork(e.Mint)
	if err != nil {
		return "", fmt.Errorf("%w: mint: %w", ErrField, err)
	}
	if e.LockSeconds < 1 || e.LockSeconds > maxLockSeconds {
		return "", fmt.Errorf("%w: a lock of %d s", ErrField, e.LockSeconds)
	}
	if len(e.Relays) < 1 || len(e.Relays) > maxEcashRelays {
		return "", fmt.Errorf("%w: %d relays", ErrField, len(e.Relays))
	}

	for _, r := range e.Relays {
		if !strings.HasPrefix(r, "ws://") && !strings.HasPrefix(r, "wss://") {
			return "", fmt.Errorf("%w: a relay that is neither ws:// nor wss://", ErrField)
		}
	}

	return n, nil
}

// readEcash turns the metadata of an invoice with the prefix lncashu into its
// terms and its network.
func (inv *Invoice) readEcash() error {
	if inv.Network != cashuLetters {
		return nil
	}
	var e Ecash
	if err := hashing.Unmarshal(inv.Metadata, &e); err != nil {
		return fmt.Errorf("%w: terms of the mint: %w", ErrField, err)
	}
	again, err := hashing.CanonicalValue(e)
	if err != nil || !bytes.Equal(again, inv.Metadata) {
		return fmt.Errorf("%w: terms of the mint: not in canonical form", ErrField)
	}
	inv.Ecash = &e
	inv.Network, err = e.network()
	return err
}

// writeEcash gives the metadata and the network of the prefix.
func writeEcash(inv *Invoice) (letters payments.Network, metadata []byte, err error) {
	n, err := inv.Ecash.network()
	if err != nil {
		return "", nil, err
	}
	metadata, err = hashing.CanonicalValue(inv.Ecash)
	if n != inv.Network || len(inv.Metadata) > 0 && !bytes.Equal(inv.Metadata, metadata) {
		return "", nil, fmt.Errorf("%w: terms of another mint, or other metadata beside them", ErrField)
	}
	if err == nil && len(metadata) > maxEcashBytes {
		err = fmt.Errorf("%w: terms of %d bytes", ErrField, len(metadata))
	}
	return cashuLetters, metadata, err
}
