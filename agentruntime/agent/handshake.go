package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

func (s *Session) handshake(ctx context.Context, reg *wire.Register) error {
	err := s.out.Send(ctx, &wire.Message{Payload: &wire.Hello{
		SessionToken: s.cfg.Token,
		AgentID:      s.cfg.ID,
		AgentVersion: s.cfg.Version,
		ManifestHash: s.cfg.ManifestHash,
		Protocol: wire.ProtocolInfo{
			SupportedVersions: []int{wire.Version},
			Capabilities:      []string{"tools", "streaming", "cancellation"},
		},
		SDK: &wire.SDKInfo{Name: sdkName, Version: sdkVersion},
	}})
	if err != nil {
		return fmt.Errorf("send hello: %w", err)
	}
	msg, err := s.read()
	if err != nil {
		return fmt.Errorf("read welcome: %w", err)
	}

	welcome, ok := msg.Payload.(*wire.Welcome)
	switch {
	case msg.Error != nil:
		return fmt.Errorf("%w: %w", ErrUnauthorized, msg.Error)
	case !ok:
		return fmt.Errorf("read welcome: unexpected %s", msg.Type())
	case welcome.AcceptedVersion != wire.Version:
		return fmt.Errorf("%w: version %d was not offered", ErrUnauthorized, welcome.AcceptedVersion)
	}

	s.accept(welcome)
	if err := s.out.Send(ctx, &wire.Message{Payload: reg}); err != nil {
		return fmt.Errorf("register tools: %w", err)
	}
	return s.awaitRegistered()
}

func (s *Session) accept(w *wire.Welcome) {
	s.id = w.SessionID
	s.beat = time.Duration(w.HeartbeatIntervalMS) * time.Millisecond
	limit := min(s.cfg.MaxFrameBytes, w.MaxFrameBytes)
	s.out.SetLimit(limit)
	room := max(limit-envelopeReserve, limit/2)
	if s.cfg.MaxOutputBytes <= 0 || s.cfg.MaxOutputBytes > room {
		s.cfg.MaxOutputBytes = room
	}
}

func (s *Session) awaitRegistered() error {
	msg, err := s.read()
	if err != nil {
		return fmt.Errorf("register tools: %w", err)
	}
	registered, ok := msg.Payload.(*wire.Registered)
	if !ok || msg.Error != nil {
		if msg.Error != nil {
			return fmt.Errorf("register tools: %w", msg.Error)
		}
		return fmt.Errorf("register tools: unexpected %s", msg.Type())
	}

	for i := range registered.Rejected {
		r := &registered.Rejected[i]
		s.cfg.Log.Warn("tool rejected", "tool", r.ToolID, "code", r.Error.Code, "reason", r.Error.Message)
	}

	return nil
}
