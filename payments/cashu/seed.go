package cashu

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcutil/hdkeychain"
	"github.com/btcsuite/btcd/chaincfg"
	"github.com/cosmos/go-bip39"

	"github.com/lightwork-market/lightwork/payments"
)

// Seed is the secret from which all keys, secrets and blinding factors of a wallet
// are derived (NUT-13: 64 bytes, which BIP-39 derives from words).
type Seed struct {
	// secret is a function because functions print as addresses, even where fmt
	// reaches a copy of the Seed inside another struct. Compare seeds by their
	// Text.
	secret func() seedSecret
}

type seedSecret struct {
	bytes [64]byte
	words string // its source, separated by single spaces; "" for hex digits
}

func newSecret(s seedSecret) Seed { return Seed{func() seedSecret { return s }} }

// ParseSeed parses 12 to 24 words, in any case and with any spacing, or 128 hex
// digits, the format of older wallet files. Its errors do not repeat the input.
func ParseSeed(text string) (s Seed, err error) {
	if words := strings.Fields(strings.ToLower(text)); len(words) > 1 {
		return parseWords(words)
	}
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(seedSecret{}.bytes) {
		return s, ErrSeed
	}
	return newSecret(seedSecret{bytes: [64]byte(b)}), nil
}

// Words are the words for restoring the seed in other wallets; "" if it has none.
func (s Seed) Words() string { return s.secret().words }

// Text is the seed as stored in its file: its words, or hex digits if it has none.
func (s Seed) Text() string {
	secret := s.secret()
	if secret.words != "" {
		return secret.words
	}
	return hex.EncodeToString(secret.bytes[:])
}

// String and LogValue keep the secret out of logs.
func (Seed) String() string { return "[seed]" }

// LogValue does for slog what String does for fmt.
func (s Seed) LogValue() slog.Value { return slog.StringValue(s.String()) }

// deriveKey derives a private key for a purpose.
func (s Seed) deriveKey(use string, salt []byte) *btcec.PrivateKey {
	secret := s.secret()
	mac := hmac.New(sha256.New, secret.bytes[:])
	mac.Write([]byte("lightwork/cashu/" + use + "/v1"))
	mac.Write(salt)
	key, _ := btcec.PrivKeyFromBytes(mac.Sum(nil))
	return key
}

// nodeKey identifies the wallet: it signs invoices, locks notes and seals messages.
func (s Seed) nodeKey() *btcec.PrivateKey { return s.deriveKey("node", nil) }

// refundKey takes back the notes of one payment.
func (s Seed) refundKey(h payments.Hash) *btcec.PrivateKey { return s.deriveKey("refund", h[:]) }

// Parts of NUT-13's path m/129372'/0'/keyset'/counter'/part.
const (
	purpose      = 129372
	secretPart   = 0
	blindingPart = 1
)

// derive returns the secret and the blinding factor with a number as in NUT-13, in
// the version of the keyset's id. If the note is locked, the secret is the nonce.
func (s Seed) derive(keysetID string, counter uint32) (secret string, r *btcec.ModNScalar, err error) {
	id, err := hex.DecodeString(keysetID)
	if err != nil || !isKeysetID(keysetID) || counter >= hdkeychain.HardenedKeyStart {
		return "", nil, fmt.Errorf("derive note: %w: keyset %q", ErrKeyset, printable(keysetID))
	}
	if keysetID[:2] == version1 {
		secret, r = s.deriveHMAC(id, counter)
		return secret, r, nil
	}

	seed := s.secret()
	key, err := hdkeychain.NewMaster(seed.bytes[:], &chaincfg.MainNetParams)
	for _, index := range []uint32{purpose, 0, uint32(binary.BigEndian.Uint64(id) % (1<<31 - 1)), counter} {
		if err != nil {
			return "", nil, fmt.Errorf("derive note: %w", err)
		}
		key, err = key.Derive(hdkeychain.HardenedKeyStart + index)
	}

	if err != nil {
		return "", nil, fmt.Errorf("derive note: %w", err)
	}

	var parts [2]*btcec.PrivateKey
	for i, part := range []uint32{secretPart, blindingPart} {
		child, err := key.Derive(part)
		if err != nil {
			return "", nil, fmt.Errorf("derive note: %w", err)
		}
		if parts[i], err = child.ECPrivKey(); err != nil {
			return "", nil, fmt.Errorf("derive note: %w", err)
		}
	}

	return hex.EncodeToString(parts[0].Serialize()), &parts[1].Key, nil
}

// deriveHMAC is NUT-13's derivation for keyset ids that are too long for BIP-32.
func (s Seed) deriveHMAC(id []byte, counter uint32) (secret string, r *btcec.ModNScalar) {
	seed := s.secret()
	part := func(kind byte) []byte {
		mac := hmac.New(sha256.New, seed.bytes[:])
		mac.Write([]byte("Cashu_KDF_HMAC_SHA256"))
		mac.Write(id)
		mac.Write(binary.BigEndian.AppendUint64(nil, uint64(counter)))
		mac.Write([]byte{kind})
		return mac.Sum(nil)
	}
	r = new(btcec.ModNScalar)
	r.SetByteSlice(part(blindingPart)) // modulo the order; zero is practically impossible
	return hex.EncodeToString(part(secretPart)), r
}

// ErrSeed: the text is neither the words nor the hex digits of a seed.
var ErrSeed = errors.New("cashu: not a seed: 12 words of BIP-39, or 128 hex digits")

// entropyBits gives 12 words, as in other wallets.
const entropyBits = 128

// NewSeed returns a new seed of 12 words.
func NewSeed() (Seed, error) {
	entropy, err := bip39.NewEntropy(entropyBits)
	if err != nil {
		return Seed{}, fmt.Errorf("new seed: %w", err)
	}
	words, err := bip39.NewMnemonic(entropy)
	if err != nil {
		return Seed{}, fmt.Errorf("new seed: %w", err)
	}
	return parseWords(strings.Fields(words))
}

// parseWords derives a seed as in BIP-39 with the English list and no passphrase,
// like other wallets with NUT-13. Its errors count words and repeat none.
func parseWords(words []string) (s Seed, err error) {
	for i, word := range words {
		if _, ok := bip39.ReverseWordMap[word]; !ok {
			return s, fmt.Errorf("%w: word %d of %d is not on the English list", ErrSeed, i+1, len(words))
		}
	}

	if !slices.Contains([]int{12, 15, 18, 21, 24}, len(words)) {
		return s, fmt.Errorf("%w: %d words", ErrSeed, len(words))
	}
	text := strings.Join(words, " ")
	raw, err := bip39.NewSeedWithErrorChecking(text, "")
	if err != nil {
		return Seed{}, fmt.Errorf("%w: the checksum in the last word is wrong: check the words and their order", ErrSeed)
	}
	return newSecret(seedSecret{[64]byte(raw), text}), nil
}
