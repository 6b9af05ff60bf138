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

// A passphrase takes 2^cost of scrypt's 1 KiB blocks of memory: 64 MiB for the keys
// that we lock, and at most 1 GiB for those that we unlock.
const (
	lockCost    = 16
	maxLockCost = 20
	// lockedBytes is the length of a locked key in NIP-49: version, cost, salt, nonce,
	// key security byte, and the encrypted key with its tag.
	lockedBytes = 1 + 1 + 16 + 24 + 1 + 32 + 16
)

var (
	// ErrPassphrase is returned for a passphrase that does not unlock the key.
	ErrPassphrase = errors.New("wrong passphrase")
	// ErrLocked is returned for a text that is not a valid ncryptsec, or one whose
	// version or cost is not supported.
	ErrLocked = errors.New("not a usable ncryptsec")
)

// IsLocked reports whether a key file's text needs a passphrase.
func IsLocked(text string) bool { return strings.HasPrefix(text, lockedPrefix+"1") }

// Lock encrypts the key with a passphrase, as ncryptsec (NIP-49). It is slow on
// purpose, so that guessing passphrases is slow too.
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

// Unlock decrypts an ncryptsec. Its errors quote neither text.
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

// checkLocked checks what the decoder does not: it would panic on a short text, and
// use all memory for an absurd cost.
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
