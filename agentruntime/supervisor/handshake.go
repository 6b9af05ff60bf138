package supervisor

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// maxHelloBytes bounds what an unauthenticated peer can send.
const maxHelloBytes = 64 << 10

// refusal is the reason why a handshake ended and the code that the peer receives.
type refusal struct {
	code string
	err  error
	// message is what the refusal answers; "" if nothing could be read.
	inReplyTo, requestID string
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// greet reads the hello of a peer whose process has been checked, and answers
// it. The session it returns has not been started. On an error the peer has
// been told and the caller closes the connection.
func greet(cfg *Config, spec *Spec, tok *token, runID string, conn net.Conn) (*session, error) {
	if err := conn.SetDeadline(time.Now().Add(cfg.HandshakeTimeout)); err != nil {
		return nil, err
	}
	in := frame.NewReader(conn, min(maxHelloBytes, cfg.MaxFrameBytes))
	msg, err := readHello(in, spec, tok)
	if err != nil {
		var r *refusal
		if errors.As(err, &r) {
			refuse(conn, r)
		}
		return nil, err
	}

	s := newSession(cfg, spec, runID, tok.secret, conn, in)
	welcome := &wire.Message{InReplyTo: msg.ID, Payload: &wire.Welcome{
		AcceptedVersion:     wire.Version,
		SessionID:           s.id,
		HeartbeatIntervalMS: cfg.HeartbeatInterval.Milliseconds(),
		MaxFrameBytes:       cfg.MaxFrameBytes,
		Server:              wire.ServerInfo{CoreVersion: cfg.CoreVersion, InstanceID: cfg.InstanceID},
	}}
	welcome.Echo(msg)
	if err := writeMessage(conn, welcome); err != nil {
		return nil, fmt.Errorf("send welcome: %w", err)
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return nil, err
	}

	in.SetLimit(cfg.MaxFrameBytes)
	return s, nil
}

func readHello(in *frame.Reader, spec *Spec, tok *token) (*wire.Message, error) {
	payload, err := in.Next()
	if err != nil {
		return nil, fmt.Errorf("read hello: %w", err)
	}
	msg, err := wire.Decode(payload, wire.Agent)
	var bad *wire.DecodeError
	if errors.As(err, &bad) {
		// The reason is not repeated: to a stranger every refusal looks the same.
		return nil, &refusal{wire.CodeUnauthorized, fmt.Errorf("read hello: %s", bad.Code), bad.ID, bad.RequestID}
	}
	deny := func(code string, err error) error {
		return &refusal{code, err, msg.ID, msg.RequestID}
	}

	// "Sent immediately after connection establishment."
	hello, ok := msg.Payload.(*wire.Hello)
	if !ok || msg.Error != nil {
		return nil, deny(wire.CodeUnauthorized, errors.New("first message is not agent.hello"))
	}

	// Only the holder of the token learns what else is wrong, and only a correct hello
	// uses the token up.
	if hello.AgentID != spec.ID {
		return nil, deny(wire.CodeUnauthorized, errors.New("hello names another agent"))
	}
	if err := tok.redeem(hello.SessionToken); err != nil {
		return nil, deny(wire.CodeUnauthorized, err)
	}

	switch {
	case spec.Version != "" && hello.AgentVersion != spec.Version:
		return nil, deny(wire.CodeManifestDrift, fmt.Errorf("agent_version is %q, the approved manifest says %q", wire.SafeText(hello.AgentVersion), spec.Version))
	case spec.ManifestHash != "" && hello.ManifestHash != "" && hello.ManifestHash != spec.ManifestHash:
		return nil, deny(wire.CodeManifestDrift, errors.New("manifest_hash is not that of the approved manifest"))
	case !slices.Contains(hello.Protocol.SupportedVersions, wire.Version):
		return nil, deny(wire.CodeUnsupportedVersion, errors.New("no common protocol version"))
	}

	return msg, nil
}

// refuse answers with core.welcome and an error (OS-4.1.2.7). Details go only into the
// audit trail, except those that the holder of the token can act on.
func refuse(conn net.Conn, r *refusal) {
	text := map[string]string{
		wire.CodeUnauthorized:       "not authorized",
		wire.CodeManifestDrift:      r.err.Error(),
		wire.CodeUnsupportedVersion: "only protocol version 1 is supported",
	}[r.code]
	// The peer may be gone, and it is closed next in any case.
	_ = writeMessage(conn, &wire.Message{
		InReplyTo: r.inReplyTo, RequestID: r.requestID,
		Error:   &wire.Error{Code: r.code, Message: text, Where: "core.handshake"},
		Payload: &wire.Welcome{},
	})
}

func writeMessage(conn net.Conn, m *wire.Message) error {
	var buf bytes.Buffer
	if err := wire.EncodeFrame(&buf, m, 0); err != nil {
		return err
	}
	_, err := conn.Write(buf.Bytes())
	return err
}
