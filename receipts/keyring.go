package receipts

import (
	"fmt"

	"github.com/lightwork-market/lightwork/internal/sigbatch"
)

// keyring remembers the keys that were found good: the documents of a bundle
// name three keys over and over, and looking whether one is on the curve takes
// longer than reading the document. The zero value remembers nothing.
type keyring struct {
	good  map[string]string // npub or hex: hex
	batch *sigbatch.Batch   // which knows those of bundles before, or nil
}

func newKeyring(l *later) keyring {
	k := keyring{good: map[string]string{}}
	if l != nil {
		k.batch = &l.signatures
	}
	return k
}

func (k keyring) valid(key sigbatch.Key) bool {
	if k.batch != nil {
		return k.batch.ValidKey(key)
	}
	return key.Valid()
}

// npub is ParseNpub.
func (k keyring) npub(s string) (hexKey string, err error) {
	if known, ok := k.good[s]; ok && len(s) == npubLength {
		return known, nil
	}
	if hexKey, err = ParseNpub(s); err == nil && k.good != nil {
		k.good[s] = hexKey
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
	if !k.valid(sigbatch.Key(append([]byte{2}, mustHex(hexKey)...))) {
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
	if !k.valid(sigbatch.Key(mustHex(hexKey))) {
		return fmt.Errorf("%w: %s is not a node key", ErrInvalid, field)
	}
	k.add(hexKey)
	return nil
}

func (k keyring) has(hexKey string) bool {
	_, ok := k.good[hexKey]
	return ok
}

func (k keyring) add(hexKey string) {
	if k.good != nil {
		k.good[hexKey] = hexKey
	}
}

// parse is ParseKey.
func (k keyring) parse(s string) (hexKey string, err error) {
	if isHex(s, 64) {
		return s, k.key("key", s)
	}
	return k.npub(s)
}
