package host

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ErrForeignDir is returned where the socket's folder is another user's, or
// others may write in it: what answers there may not be the node.
var ErrForeignDir = errors.New("the socket's folder must be one of ours that nobody else can write")

// keySuffix is that of the file beside a socket which holds its key.
const keySuffix = ".key"

// An agent runs under the node's own user unless it has an account of its own,
// and Landlock lets it connect to every socket of that user, for it restricts
// opening files and not connecting. So the user alone is no operator: whoever
// steers the node, or looks at it, shows that it can read a file beside the
// socket, which no confined agent can.

// MakeKey writes a new key beside the socket: SOCKET.key, for its owner alone.
func MakeKey(socket string) (string, error) {
	var b [32]byte
	_, _ = rand.Read(b[:])
	key := hex.EncodeToString(b[:])
	path := socket + keySuffix
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("make the socket's key: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", fmt.Errorf("make the socket's key: %w", err)
	}
	_, err = f.WriteString(key)
	if err = errors.Join(err, f.Close()); err != nil {
		return "", fmt.Errorf("make the socket's key: %w", err)
	}
	return key, nil
}

// ReadKey reads the key beside the socket. Errors wrap fs.ErrNotExist where no
// node has made one, and ErrForeignDir.
func ReadKey(socket string) (string, error) {
	if err := checkDir(filepath.Dir(socket)); err != nil {
		return "", err
	}
	key, err := os.ReadFile(socket + keySuffix)
	if err != nil {
		return "", fmt.Errorf("read the socket's key: %w", err)
	}
	return string(key), nil
}

// checkDir refuses a folder that may be another user's. Where the data folder's path
// is too long, the socket is under the system's temporary folder: there anybody can
// make the folder first, and answer the operator in the node's place. Root also steers
// the nodes of others, in folders that not anybody can make.
func checkDir(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("check the socket's folder: %w", err)
	}
	above, err := os.Stat(filepath.Dir(dir))
	if err != nil {
		return fmt.Errorf("check the socket's folder: %w", err)
	}
	owner := -1
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		owner = int(sys.Uid)
	}
	ours := owner == os.Geteuid() || os.Geteuid() == 0 && above.Mode()&os.ModeSticky == 0
	if !st.IsDir() || !ours || st.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%w: %s", ErrForeignDir, dir)
	}
	return nil
}

// Keyed answers only those who show the key, as "Authorization: Bearer KEY".
func Keyed(key string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if subtle.ConstantTimeCompare([]byte(shown), []byte(key)) != 1 {
			refuse(w, http.StatusForbidden, errors.New("only who can read the key beside the socket is answered"))
			return
		}
		next.ServeHTTP(w, r)
	})
}
