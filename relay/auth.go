package relay

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// ErrAuth says that a relay wants to know who asks (NIP-42), and was not told or
// did not believe it.
var ErrAuth = errors.New("relay asks for authentication")

// wantsAuth reads a relay's refusal.
func wantsAuth(text string) bool { return strings.HasPrefix(text, "auth-required:") }

// maxProofs bounds the signatures that a connection may ask for: each can be a
// question to a remote signer, and to its owner. A relay has one challenge for a
// connection, or a few; one that believes every proof and refuses all the same,
// with a new challenge each time, would have us sign without end.
const maxProofs = 4

// authenticate proves the pool's key to the relay, once for each challenge. A
// key is shown only to a relay that has refused something for the lack of it.
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

// hasProved reports whether the key was proved to the present challenge: then a
// refusal is not for the lack of it.
func (s *session) hasProved() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.challenge != "" && s.proved == s.challenge
}

func (s *session) challenged(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.challenge = text
}

// canProve reports whether it is worth the attempt.
func (s *session) canProve() bool {
	return s.link.pool.cfg.Signer != nil && !s.hasProved() && s.proofs.Load() < maxProofs
}

// afterAuth calls next when the relay knows the key, or why it does not. It is
// called by the reading goroutine and runs beside it, no longer than the
// connection.
func (s *session) afterAuth(next func(error)) {
	s.spawn(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, s.link.pool.cfg.PublishTimeout)
		defer cancel()
		err := s.authenticate(ctx)
		if err != nil {
			s.link.log.Warn("relay wants to know who we are", "err", err)
		}
		next(err)
	})
}
