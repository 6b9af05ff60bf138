package supervisor

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"sync"
	"time"
)

const tokenBytes = 32

// token lets one process open one session. It is bound to the launch: only
// the connection of the launched process reaches it.
type token struct {
	secret  string // base64url without padding
	expires time.Time

	mu   sync.Mutex
	used bool
}

var (
	errTokenWrong   = errors.New("wrong session token")
	errTokenUsed    = errors.New("session token was used before")
	errTokenExpired = errors.New("session token has expired")
)

func newToken(ttl time.Duration) *token {
	var b [tokenBytes]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return &token{secret: base64.RawURLEncoding.EncodeToString(b[:]), expires: time.Now().Add(ttl)}
}

// redeem accepts the secret once.
func (t *token) redeem(secret string) error {
	t.mu.Lock()
	defer t.mu.Unlock()

	switch {
	case subtle.ConstantTimeCompare([]byte(secret), []byte(t.secret)) != 1:
		return errTokenWrong
	case t.used:
		return errTokenUsed
	case !time.Now().Before(t.expires):
		return errTokenExpired
	}

	t.used = true
	return nil
}
