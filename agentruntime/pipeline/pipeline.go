package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// Config sets up a Pipeline. [New] copies it; later changes have no effect.
type Config struct {
	// Handlers in the order of declaration. Names are unique.
	Handlers []Handler
	// Profiles become one table each. Names are unique.
	Profiles []Profile
	// Schemas check the payloads of a tag, on the way in and out of a handler.
	// A tag without one is checked in structure only.
	Schemas map[string]Validate
	// Secrets find the secrets in the payloads of a tag. References replace them
	// before a message is hashed, and the handler that takes the message receives the
	// values. A tag without an entry has no secrets.
	Secrets map[string]Marked
	// Journal and Audit are required.
	Journal Journal
	Audit   Audit
	// Keep reports whether the journal also receives the bytes of a payload tag. Nil
	// keeps none.
	Keep func(tag string) bool
	// DirectiveLive reports whether a directive exists and is in force. Nil:
	// none ever is. An error refuses the message.
	DirectiveLive func(ctx context.Context, id string) (bool, error)
	// MaxPayload bounds one payload in bytes. Zero: 16 MiB.
	MaxPayload int
	// MaxHops bounds the messages that one Submit may cause. Zero: 1000.
	MaxHops int
	// Trace sees every stage a message enters, in order. It is called from
	// many goroutines. Nil: nothing is traced.
	Trace func(Stage, Header)
	// Now is the clock of entries. Nil: time.Now.
	Now func() time.Time
	// Logger receives shadowed routes and panics, but never payloads. Nil discards.
	Logger *slog.Logger
}

// Stage is one of the pipeline's stages; a message passes them in this order.
type Stage string

// The stages.
const (
	StageValidate Stage = "validate"
	StageSecurity Stage = "security"
	StageJournal  Stage = "journal"
	StageDispatch Stage = "dispatch"
	StageResponse Stage = "response"
)

const (
	defaultMaxPayload = 16 << 20
	defaultMaxHops    = 1000
)

func (c Config) validate() error {
	if c.Journal == nil || c.Audit == nil {
		return &ConfigError{"config", errors.New("journal and audit are required")}
	}
	if c.MaxPayload < 0 || c.MaxHops < 0 {
		return &ConfigError{"config", errors.New("limits are negative")}
	}

	for tag := range c.Schemas {
		if err := checkTag(tag); err != nil {
			return &ConfigError{"schema " + tag, err}
		}
	}

	seen := map[string]bool{}
	for _, h := range c.Handlers {
		if seen[h.Name] {
			return &ConfigError{"handler " + h.Name, errors.New("name is not unique")}
		}
		seen[h.Name] = true
		if err := h.check(c.Schemas); err != nil {
			return &ConfigError{"handler " + h.Name, err}
		}
	}

	for _, h := range c.Handlers {
		for _, peer := range h.Peers {
			if !seen[peer] {
				return &ConfigError{"handler " + h.Name, fmt.Errorf("peer %q does not exist", peer)}
			}
		}
	}

	return nil
}

// Pipeline moves messages. It is safe for use by many goroutines.
type Pipeline struct {
	handlers map[string]Handler
	tables   map[string]*Table
	schemas  map[string]Validate
	secrets  map[string]Marked
	cfg      Config // handlers, profiles and schemas in it are not used

	mu      sync.Mutex
	threads map[ThreadID]*Thread // active ones
}

// New checks the whole configuration and builds every table.
func New(cfg Config) (*Pipeline, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	if cfg.MaxPayload == 0 {
		cfg.MaxPayload = defaultMaxPayload
	}
	if cfg.MaxHops == 0 {
		cfg.MaxHops = defaultMaxHops
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pipeline{
		cfg: cfg, handlers: map[string]Handler{}, tables: map[string]*Table{},
		schemas: maps.Clone(cfg.Schemas), secrets: maps.Clone(cfg.Secrets), threads: map[ThreadID]*Thread{},
	}
	for _, h := range cfg.Handlers {
		h.Tags, h.Outputs, h.Peers = slices.Clone(h.Tags), slices.Clone(h.Outputs), slices.Clone(h.Peers)
		p.handlers[h.Name] = h
	}

	for _, profile := range cfg.Profiles {
		table, shadowed, err := newTable(profile, cfg.Handlers)
		if err != nil {
			return nil, err
		}
		if p.tables[profile.Name] != nil {
			return nil, &ConfigError{"profile " + profile.Name, errors.New("name is not unique")}
		}
		for _, r := range shadowed {
			cfg.Logger.Warn("an earlier handler takes the payload tag", "profile", profile.Name, "tag", r.Tag, "handler", r.Handler)
		}
		p.tables[profile.Name] = table
	}

	return p, nil
}

// Table returns the table of a profile.
func (p *Pipeline) Table(profile string) (*Table, bool) {
	t, ok := p.tables[profile]
	return t, ok
}

// Tables returns the rows of every table by profile: what a policy manifest
// freezes.
func (p *Pipeline) Tables() map[string][]Route {
	all := map[string][]Route{}
	for name, t := range p.tables {
		all[name] = t.Routes()
	}
	return all
}

// Ingress is a message from outside the pipeline.
type Ingress struct {
	Namespace, Tag string
	Payload        []byte
	Thread         ThreadID
	Profile        string
	// Sender is the outside source; no handler's name is allowed.
	Sender string
	// DirectiveID is the approval that a handler may require.
	DirectiveID string
	// RequestID and CorrelationID travel with the message to the handler.
	RequestID, CorrelationID string
	// Stream receives output while handlers work, from their goroutine. Nil:
	// it is dropped.
	Stream func(channel, text string)
}

// Outcome is what came back to the outside source.
type Outcome struct {
	// Reply is the final envelope: a reply, an acknowledgement (TagAck) or an
	// error (TagError).
	Reply Envelope
	// Rejected are messages of handlers that were refused on the way.
	Rejected []error
	// Hops is how many messages were dispatched.
	Hops int

	whole    []byte // of the reply, if its tag has secrets
	confided []byte // the request without its secrets, if it had some
}

// Open begins a root thread under a profile. An active thread of that id makes
// it ErrThreadBusy, an unknown profile ErrRouteNotFound.
func (p *Pipeline) Open(id ThreadID, profile string) (*Thread, error) {
	if _, err := ParseThreadID(string(id)); err != nil {
		return nil, &MalformedError{"thread_id", err.Error()}
	}
	table, ok := p.tables[profile]
	if !ok {
		return nil, fmt.Errorf("profile %.80q: %w", profile, ErrRouteNotFound)
	}
	return p.begin(id, table, nil)
}

// Active finds a thread that has not ended. It is for the node; no handler may reach it.
func (p *Pipeline) Active(id ThreadID) (*Thread, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, ok := p.threads[id]
	return t, ok
}

func (p *Pipeline) begin(id ThreadID, table *Table, parent *Thread) (*Thread, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, active := p.threads[id]; active {
		return nil, fmt.Errorf("thread %s: %w", id, ErrThreadBusy)
	}
	t := &Thread{id: id, table: table, parent: parent, pipe: p, state: ThreadActive}
	p.threads[id] = t
	return t, nil
}

func (p *Pipeline) end(t *Thread) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.threads[t.id] == t {
		delete(p.threads, t.id)
	}
}

// Submit runs one message through a thread of its own: Open, Thread.Submit,
// Finish. The errors are those of this package: *MalformedError,
// *ValidationError, ErrRouteNotFound, ErrNoDirective, *ResponseError,
// *HandlerError, *HandlerPanicError, ErrChainExhausted, ErrThreadBusy,
// ErrJournal. With a *HandlerError the outcome has the error envelope too.
func (p *Pipeline) Submit(ctx context.Context, in Ingress) (Outcome, error) {
	t, err := p.Open(in.Thread, in.Profile)
	if err != nil {
		reason := RejectRoute
		switch {
		case errors.Is(err, ErrThreadBusy):
			return Outcome{}, err
		case errors.As(err, new(*MalformedError)):
			reason = RejectMalformed
		}
		p.reject(ctx, reason, Header{Tag: in.Tag, Sender: in.Sender, Thread: in.Thread, Profile: in.Profile})
		return Outcome{}, err
	}

	out, err := t.Submit(ctx, in)
	t.Finish(err == nil)
	return out, err
}

func (p *Pipeline) reject(ctx context.Context, reason RejectReason, h Header) {
	p.cfg.Audit.Reject(context.WithoutCancel(ctx), Reject{
		Time: p.cfg.Now().UTC(), Reason: reason, Tag: clip(h.Tag), Profile: clip(h.Profile), Thread: ThreadID(clip(string(h.Thread))), Sender: clip(h.Sender),
	})
}

// clip shortens text of a header, so that a hostile sender cannot fill the log.
func clip(s string) string { return s[:min(len(s), maxNameLength)] }

func (p *Pipeline) trace(s Stage, h Header) {
	if p.cfg.Trace != nil {
		p.cfg.Trace(s, h)
	}
}
