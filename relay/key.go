package relay

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip19"
)

// Signer signs events. Its key may be on another machine, so that signing can fail
// and take time. [Key] is a Signer.
type Signer interface {
	// PublicKey is the signer's key, 64 hex digits.
	PublicKey() string
	// Sign sets the event's pubkey, id and signature.
	Sign(ctx context.Context, ev *nostr.Event) error
}

var (
	// ErrKeyMode is returned for a secret key file that others can read.
	ErrKeyMode = errors.New("secret key file is open to other users")
	// ErrKeyFormat is returned for a file that holds no secret key.
	ErrKeyFormat = errors.New("not a secret key of 64 hex digits or nsec")
)

// maxKeyFile bounds a key file, in bytes.
const maxKeyFile = 4096

// Key is a secret key in memory. It prints as its public key.
type Key struct {
	// secret returns the key in hex. A function prints as an address, also
	// where fmt reaches a copy of the Key inside another struct.
	secret func() string
	public string // hex
}

var _ Signer = (*Key)(nil)

// GenerateKey makes a new key.
func GenerateKey() (*Key, error) {
	secret, err := btcec.NewPrivateKey()
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return newKey(secret.Serialize())
}

// LoadKey reads a key file: one line, hex or nsec. Errors are those of
// [ReadKeyFile] and [ParseKey].
func LoadKey(path string) (*Key, error) {
	text, err := ReadKeyFile(path)
	if err != nil {
		return nil, err
	}
	k, err := ParseKey(text)
	if err != nil {
		return nil, fmt.Errorf("load key: %s: %w", path, err)
	}
	return k, nil
}

// ReadKeyFile returns the text of a key file without surrounding space. A file with
// any permission for group or others is refused with [ErrKeyMode].
func ReadKeyFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("load key: %w", err)
	}
	defer f.Close()

	info, err := f.Stat() // of the open file: the name may point elsewhere by now
	if err != nil {
		return "", fmt.Errorf("load key: %w", err)
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("load key: %s is not a file", path)
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return "", fmt.Errorf("load key: %w: %s has mode %04o; run: chmod 600 %s", ErrKeyMode, path, mode, path)
	}

	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile+1))
	if err != nil {
		return "", fmt.Errorf("load key: %w", err)
	}
	if len(text) > maxKeyFile {
		return "", fmt.Errorf("load key: %s: %w", path, ErrKeyFormat)
	}

	return strings.TrimSpace(string(text)), nil
}

// ParseKey reads a secret key in hex (either case) or as nsec. The error never
// quotes the text.
func ParseKey(text string) (*Key, error) {
	if strings.HasPrefix(text, "nsec1") {
		kind, value, err := nip19.Decode(text)
		decoded, ok := value.(string)
		if err != nil || kind != "nsec" || !ok {
			return nil, ErrKeyFormat
		}
		text = decoded
	}

	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != 32 {
		return nil, ErrKeyFormat
	}
	return newKey(secret)
}

func newKey(secret []byte) (*Key, error) {
	var n btcec.ModNScalar
	if overflow := n.SetByteSlice(secret); overflow || n.IsZero() {
		return nil, ErrKeyFormat
	}
	_, public := btcec.PrivKeyFromBytes(secret)
	text := hex.EncodeToString(secret)
	return &Key{
		secret: func() string { return text },
		public: hex.EncodeToString(public.SerializeCompressed()[1:]), // x-only
	}, nil
}

// WriteFile writes the key in hex to a new file with [WriteKeyFile].
func (k *Key) WriteFile(path string) error { return WriteKeyFile(path, k.secret()) }

// NSEC is the secret key as nsec. It must be shown only to the owner.
func (k *Key) NSEC() (string, error) {
	text, err := nip19.EncodePrivateKey(k.secret())
	if err != nil {
		return "", errors.New("encode key") // the cause may quote the key
	}
	return text, nil
}

// WriteKeyFile writes the text to a new file of mode 0600, durably. It never
// replaces a file.
func WriteKeyFile(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return fmt.Errorf("write secret: %w", err)
	}
	_, err = f.WriteString(text + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write secret: %w", errors.Join(err, os.Remove(path)))
	}
	return nil
}

// PublicKey returns the public key in hex.
func (k *Key) PublicKey() string { return k.public }

// Sign signs the event.
func (k *Key) Sign(_ context.Context, ev *nostr.Event) error {
	if err := ev.Sign(k.secret()); err != nil {
		return errors.New("sign event") // the cause may quote the key
	}
	return nil
}

// String, GoString and LogValue keep the secret out of every output.
func (k Key) String() string { return "key of " + k.public }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// LogValue is String.
func (k Key) LogValue() slog.Value { return slog.StringValue(k.String()) }

// Format makes every verb of fmt print String.
func (k Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, k.String()) }
