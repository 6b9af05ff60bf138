package keys

import (
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
)

// RootSecret reads the secret that payment preimages derive from.
func RootSecret(path string) ([]byte, error) {
	text, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, advice.Usage("correct identity.root_secret_file, or restore it from your backup; for a new node "+advice.SetUp+" makes one", "preimage secret: %w", err)
	}
	if err != nil {
		return nil, err
	}

	secret, err := hex.DecodeString(text)
	if err != nil || len(secret) != 32 {
		return nil, advice.Usage("restore it from your backup", "%s does not hold 64 hex digits", path)
	}
	return secret, nil
}

// ReadSecret reads a one-line secret from a file only its owner can read.
func ReadSecret(path string) (string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", advice.Usage(advice.SetUp+" makes the files that are missing", "secret file: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 {
		return "", advice.Usage("chmod 600 "+path, "secret file %s is readable by others (mode %04o)", path, st.Mode().Perm())
	}
	if st.Size() > 4096 {
		return "", advice.Usage("", "secret file %s is too large", path)
	}

	raw, err := os.ReadFile(path)
	return strings.TrimSpace(string(raw)), err
}
