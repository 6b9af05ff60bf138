package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

var errNotSaid = errors.New("the agent ended or did not say this in time")

// expect waits for a message that one of the patterns matches.
func (p *player) expect(arg string) error {
	_, err := p.find(arg, time.Now().Add(p.limit))
	return err
}

func (p *player) find(arg string, deadline time.Time) (*heard, error) {
	patterns, err := decodeAll([]byte(p.vars.fill(arg)))
	if err != nil {
		return nil, fmt.Errorf("the script's pattern: %w", err)
	}

	for i, h := range p.inbox {
		if diff, _ := p.try(patterns, h); diff == "" {
			p.inbox = slices.Delete(p.inbox, i, i+1)
			return h, nil
		}
	}

	for {
		h, err := p.next(deadline)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return nil, errNotSaid
		}
		if err != nil {
			return nil, err
		}

		diff, same := p.try(patterns, h)
		if diff == "" {
			return h, nil
		}
		if same {
			return nil, fmt.Errorf("the agent says something else: %s", diff)
		}

		if text(h.doc, "type") != string(wire.TypeHeartbeat) {
			p.inbox = append(p.inbox, h)
		}
	}
}

// try returns how h differs from the pattern that comes closest, "" if one
// matches, and whether h answers what that pattern is about.
func (p *player) try(patterns []any, h *heard) (diff string, same bool) {
	for _, pattern := range patterns {
		learnt := vars{}
		d := match(pattern, h.doc, "", learnt)
		if d == "" {
			maps.Copy(p.vars, learnt)
			return "", true
		}
		if diff == "" || sameMatter(pattern, h.doc) {
			diff, same = d, same || sameMatter(pattern, h.doc)
		}
	}

	return diff, same
}

// sameMatter reports whether got must be what pattern waits for, because
// nothing else will come: the result of the call, or the answer of that type.
func sameMatter(pattern, got any) bool {
	if text(pattern, "type") != text(got, "type") {
		return false
	}
	about := func(path ...string) bool {
		return text(pattern, path...) != "" && text(pattern, path...) == text(got, path...)
	}
	return about("in_reply_to") || about("payload", "call_id") && text(got, "type") == string(wire.TypeToolResult)
}

func (p *player) expectEach(arg string) error {
	n, pattern, err := cutNumber(arg)
	if err != nil {
		return err
	}
	deadline := time.Now().Add(p.limit)
	for i := 1; i <= n; i++ {
		if _, err := p.find(replaceNumber(pattern, i), deadline); err != nil {
			return fmt.Errorf("%d of %d: %w", i, n, err)
		}
	}
	return nil
}

func (p *player) expectOrClosed(arg string) error {
	return unlessClosed(p.expect(arg))
}

// expectOrSkip waits for what an agent may leave out.
func (p *player) expectOrSkip(arg string) error {
	err := p.expect(arg)
	if errors.Is(err, errNotSaid) {
		return skipError("the agent does not do this, which it may")
	}
	return err
}

func (p *player) aliveOrClosed(string) error { return unlessClosed(p.alive("")) }

func unlessClosed(err error) error {
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

func (p *player) never(arg string) error {
	pattern, err := decode([]byte(p.vars.fill(arg)))
	p.nevers = append(p.nevers, pattern)
	return err
}

func (p *player) silent(arg string) error {
	d, err := time.ParseDuration(arg)
	if err != nil {
		return err
	}

	deadline := time.Now().Add(d)
	for {
		h, err := p.next(deadline)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return nil
		case err != nil:
			return err
		case text(h.doc, "type") != string(wire.TypeHeartbeat):
			return fmt.Errorf("the agent says %s", clip(string(h.raw)))
		}
	}
}

// listen reads on, so that the watches see what comes.
func (p *player) listen(arg string) error {
	d, err := time.ParseDuration(arg)
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(d); err == nil; {
		_, err = p.next(deadline)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// alive asks for a tool that does not exist: every agent must answer that.
func (p *player) alive(string) error {
	p.vars["$ALIVE"] = wire.NewID()
	err := p.say(`{"type":"core.tool.call","request_id":"$ALIVE","payload":{"call_id":"$ALIVE","tool_id":"$AGENT/lightwork_no_such_tool","input":{}}}`)
	if err != nil {
		return err
	}
	return p.expect(`{"type":"agent.tool.result","payload":{"call_id":"$ALIVE","status":"failed"}}`)
}

func (p *player) closed(string) error {
	for deadline := time.Now().Add(p.limit); ; {
		_, err := p.next(deadline)
		switch {
		case errors.Is(err, errClosed):
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded):
			return errors.New("the agent keeps the connection open")
		case err != nil:
			return err
		}
	}
}

// session does the handshake.
func (p *player) session(arg string) error {
	opts := struct {
		Beat  int `json:"heartbeat_interval_ms"`
		Frame int `json:"max_frame_bytes"`
	}{5000, 4 << 20}
	if arg != "" {
		if err := json.Unmarshal([]byte(arg), &opts); err != nil {
			return err
		}
	}

	if err := p.expect(`{"type":"agent.hello","id":"$HELLO"}`); err != nil {
		return fmt.Errorf("agent.hello: %w", err)
	}
	p.vars["$SESSION"] = wire.NewID()
	err := p.say(fmt.Sprintf(`{"type":"core.welcome","in_reply_to":"$HELLO","payload":{"accepted_version":1,"session_id":"$SESSION",
		"heartbeat_interval_ms":%d,"max_frame_bytes":%d,"server":{"core_version":"1.0.0","instance_id":"contract"}}}`, opts.Beat, opts.Frame))
	if err != nil {
		return err
	}
	p.in.SetLimit(opts.Frame)
	h, err := p.find(`{"type":"agent.tools.register"}`, time.Now().Add(p.limit))
	if err != nil {
		return fmt.Errorf("agent.tools.register: %w", err)
	}
	p.managed = true
	return p.register(h)
}

// register takes what can be read of the tools and accepts all of them; what
// is wrong with one is for a watch to say.
func (p *player) register(h *heard) error {
	var msg struct {
		ID      string
		Payload wire.Register
	}
	if err := json.Unmarshal(h.raw, &msg); err != nil {
		return fmt.Errorf("agent.tools.register: %w", err)
	}
	if msg.Payload.Replace {
		p.tools = nil
	}
	p.tools = append(p.tools, msg.Payload.Tools...)
	ids := []wire.ToolID{}
	for _, t := range msg.Payload.Tools {
		ids = append(ids, t.ToolID)
	}
	p.vars["$REGISTER"], p.vars["$TOOLS"] = escape(msg.ID), compact(ids)
	return p.say(`{"type":"core.tools.registered","in_reply_to":"$REGISTER","payload":{"registered":$TOOLS}}`)
}
