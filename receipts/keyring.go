package receipts

import (
	"fmt"

	"github.com/lightwork-market/lightwork/internal/sigbatch"
)

// keyring remembers the keys that were found good: the documents of a bundle
// name three keys over and over, and looking whether one is on the curve takes
// longer than reading the document. A nil keyring remembers nothing.
type keyring map[string]string // npub or hex: hex

// npub is ParseNpub.
func (k keyring) npub(s string) (hexKey string, err error) {
	if known, ok := k[s]; ok && len(s) == npubLength {
		return known, nil
	}
	if hexKey, err = ParseNpub(s); err == nil && k != nil {
		k[s] = hexKey
	}
	return hexKey, err
}

// key wants an x-only key that is a point of the curve.
func (k keyring) key(field, hexKey string) error {
	if !isHex(hexKey, 64) {
		return fmt.Errorf("%w: %s is not 64 lower-case hex digits", ErrInvalid, field)
	}
	if k.has(hexKey) {
		return nil
	}
	if !sigbatch.Key(append([]byte{2}, mustHex(hexKey)...)).Valid() {
		return fmt.Errorf("%w: %s is not a public key", ErrInvalid, field)
	}
	k.add(hexKey)
	return nil
}

// node wants a compressed Lightning node key.
func (k keyring) node(field, hexKey string) error {
	if !isHex(hexKey, 66) {
		return fmt.Errorf("%w: %s is not 66 lower-case hex digits", ErrInvalid, field)
	}
	if k.has(hexKey) {
		return nil
	}
	if !sigbatch.Key(mustHex(hexKey)).Valid() {
		return fmt.Errorf("%w: %s is not a node key", ErrInvalid, field)
	}
	k.add(hexKey)
	return nil
}

func (k keyring) has(hexKey string) bool {
	_, ok := k[hexKey]
	return ok
}

func (k keyring) add(hexKey string) {
	if k != nil {
		k[hexKey] = hexKey
	}
}

// parse is ParseKey.
func (k keyring) parse(s string) (hexKey string, err error) {
	if isHex(s, 64) {
		return s, k.key("key", s)
	}
	return k.npub(s)
}
