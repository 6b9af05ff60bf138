package relay

import (
	"errors"
	"fmt"
	"strings"

	"github.com/btcsuite/btcd/btcutil/bech32"
	"github.com/nbd-wtf/go-nostr/nip49"
)

// lockedPrefix begins a secret key that a passphrase locks (NIP-49).
const lockedPrefix = "ncryptsec"

// The cost of a passphrase is 2 to this power: of scrypt's 1 KiB blocks in
// memory, so 64 MiB for a key of ours, and 1 GiB for the dearest we open.
const (
	lockCost    = 16
	maxLockCost = 20
	// lockedBytes is what NIP-49 makes of a key: version, cost, salt, nonce,
	// what is known of the key's past, and the sealed key with its tag.
	lockedBytes = 1 + 1 + 16 + 24 + 1 + 32 + 16
)

var (
	// ErrPassphrase is returned for a passphrase that does not open the key.
	ErrPassphrase = errors.New("wrong passphrase")
	// ErrLocked is returned for a text that should be an ncryptsec and is not
	// one that can be opened here.
	ErrLocked = errors.New("not a usable ncryptsec")
)

// IsLocked reports whether a key file's text needs a passphrase.
func IsLocked(text string) bool { return strings.HasPrefix(text, lockedPrefix+"1") }

// Lock returns the key as ncryptsec. It takes a good part of a second, on
// purpose.
func (k *Key) Lock(passphrase string) (string, error) {
	if passphrase == "" {
		return "", fmt.Errorf("lock key: %w: it is empty", ErrPassphrase)
	}
	text, err := nip49.Encrypt(k.secret(), passphrase, lockCost, nip49.ClientDoesNotTrackThisData)
	if err != nil {
		return "", errors.New("lock key") // the cause may quote the key
	}
	return text, nil
}

// Unlock opens an ncryptsec. Neither text is ever quoted.
func Unlock(text, passphrase string) (*Key, error) {
	if err := checkLocked(text); err != nil {
		return nil, fmt.Errorf("unlock key: %w", err)
	}
	secret, err := nip49.DecryptToBytes(text, passphrase)
	if err != nil {
		return nil, fmt.Errorf("unlock key: %w", ErrPassphrase)
	}
	k, err := newKey(secret)
	if err != nil {
		return nil, fmt.Errorf("unlock key: %w", err)
	}
	return k, nil
}

// checkLocked checks what the decoder takes for granted: it would panic on a
// short text, and take all memory for a cost that nobody means.
func checkLocked(text string) error {
	if len(text) > maxKeyFile {
		return fmt.Errorf("%w: too long", ErrLocked)
	}
	prefix, words, err := bech32.DecodeNoLimit(text)
	if err != nil || prefix != lockedPrefix {
		return ErrLocked
	}
	data, err := bech32.ConvertBits(words, 5, 8, false)
	switch {
	case err != nil || len(data) != lockedBytes:
		return ErrLocked
	case data[0] != 2:
		return fmt.Errorf("%w: version %d", ErrLocked, data[0])
	case data[1] > maxLockCost:
		return fmt.Errorf("%w: its passphrase costs 2^%d, at most 2^%d here", ErrLocked, data[1], maxLockCost)
	}
	return nil
}
