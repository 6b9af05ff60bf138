package cashu

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cosmos/go-bip39"
)

// ErrSeed: neither words nor hex digits of a seed.
var ErrSeed = errors.New("cashu: not a seed: 12 words of BIP-39, or 128 hex digits")

// entropyBits makes 12 words, as other wallets' are.
const entropyBits = 128

// NewSeed makes a seed of 12 words.
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

// parseWords is BIP-39 with the English list and no passphrase: what wallets of
// NUT-13 use. Its errors count words and repeat none.
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
		return Seed{}, fmt.Errorf("%w: the last word does not fit the others: is one of them another, or in another place?", ErrSeed)
	}
	return newSecret(seedSecret{[64]byte(raw), text}), nil
}
