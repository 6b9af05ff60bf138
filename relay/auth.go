package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// ErrAuth says that a relay requires authentication (NIP-42), and that there is no
// key for it or that the relay rejected the proof.
var ErrAuth = errors.New("relay asks for authentication")

// wantsAuth reports whether a relay refused for lack of authentication.
func wantsAuth(text string) bool { return strings.HasPrefix(text, "auth-required:") }

// maxProofs bounds the signatures that a relay can demand over one connection. Each
// may be a question to a remote signer and its owner. An honest relay sends a few
// challenges; a hostile one could send a new challenge after every proof, without
// end.
const maxProofs = 4

// authenticate proves the pool's key to the relay, once for each challenge. It is
// called only after the relay refused something, so that other relays do not learn
// the key.
func (s *session) authenticate(ctx context.Context) error {
	s.proving.Lock()
	defer s.proving.Unlock()

	s.mu.Lock()
	challenge, proved := s.challenge, s.proved
	s.mu.Unlock()

	switch signer := s.link.pool.cfg.Signer; {
	case signer == nil, challenge == "":
		return ErrAuth
	case proved == challenge:
		return nil
	case s.proofs.Add(1) > maxProofs:
		return fmt.Errorf("%w again and again", ErrAuth)
	default:
		ev := nostr.Event{
			Kind: nostr.KindClientAuthentication, CreatedAt: now(),
			Tags: nostr.Tags{{"relay", s.link.url}, {"challenge", challenge}},
		}
		if err := signer.Sign(ctx, &ev); err != nil {
			return fmt.Errorf("%w: %w", ErrAuth, err)
		}
		a, err := s.exchange(ctx, ev.ID, nip01.AppendAuthMessage(nil, &ev))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrAuth, err)
		}
		if !a.accepted {
			return fmt.Errorf("%w: %s", ErrAuth, a.text)
		}
	}

	s.mu.Lock()
	s.proved = challenge
	s.mu.Unlock()
	return nil
}

// isProved reports whether the present challenge was answered. If so, a refusal has
// another reason.
func (s *session) isProved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.challenge != "" && s.proved == s.challenge
}

func (s *session) onChallenge(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge = text
}

// canProve reports whether an authentication could help.
func (s *session) canProve() bool {
	return s.link.pool.cfg.Signer != nil && !s.isProved() && s.proofs.Load() < maxProofs
}

// afterAuth authenticates and calls next with the outcome. It is called by the
// reading goroutine, and runs in a goroutine that ends with the connection.
func (s *session) afterAuth(next func(error)) {
	s.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, s.link.pool.cfg.PublishTimeout)
		defer cancel()
		err := s.authenticate(ctx)
		if err != nil {
			s.link.log.Warn("authentication to the relay failed", "err", err)
		}
		next(err)
	})
}
