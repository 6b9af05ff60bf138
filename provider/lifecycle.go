package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/provider/internal/openjob"
	"github.com/lightwork-market/lightwork/replay"
)

// Lifecycle says which events of NIP-SA's proposal are published. The zero
// value publishes none.
type Lifecycle struct {
	Kinds lifecycle.Kinds
	// Encrypt hides all trajectories from everybody but the buyer, who then gets
	// them with params and payloads. Those of results that were sealed or
	// encrypted are hidden in any case.
	Encrypt bool
}

// lineBytes is the longest line that is published in full: it grows when it is
// encrypted. A longer one goes without params and payload.
const lineBytes = 24 << 10

// What a TickResult says of a run.
const (
	tickSuccess = "success"
	tickFailure = "failure"
	tickTimeout = "timeout"
)

// tick tells that a run begins; what it returns tells how it ended, in whole ticks
// of the clock by which buyers hear of it. Both are courtesies that may be lost.
func (p *Provider) tick(ctx context.Context, job Job) (ended func(status string)) {
	k := p.cfg.Lifecycle.Kinds
	if k.TickRequest == 0 {
		return func(string) {}
	}
	began, err := p.pub.Lifecycle(ctx, k.TickRequest, lifecycle.TickRequest{Job: job.RequestID, Run: int64(job.Run), Runner: p.key, Trigger: "job"})
	if err != nil {
		p.log.Error("lifecycle", "err", err)
		return func(string) {}
	}
	p.pub.Offer(func(context.Context) (nostr.Event, error) { return began, nil })
	start := time.Now()
	return func(status string) {
		if k.TickResult == 0 {
			return
		}
		ticks := (time.Since(start) + tickEvery - 1) / tickEvery
		r := lifecycle.TickResult{Request: began.ID, Runner: p.key, Status: status, DurationMs: (ticks * tickEvery).Milliseconds(), Actions: 1}
		p.pub.Offer(func(ctx context.Context) (nostr.Event, error) { return p.pub.Lifecycle(ctx, k.TickResult, r) })
	}
}

// trajectoryEvents publish the record of a job that is done and, where it has a
// price, paid. What they lack in room or cipher is no reason to fail the j.
func (p *Provider) trajectoryEvents(ctx context.Context, j *openjob.Job) []OutEvent {
	k := p.cfg.Lifecycle.Kinds
	if k.TrajectorySession == 0 || j.Result == nil {
		return nil
	}
	hidden := p.cfg.Lifecycle.Encrypt || j.IsSealed() || j.To.Scheme != ""
	if hidden && p.cfg.Cipher == nil {
		return nil // a remote signer opens and hides nothing
	}
	out, err := p.session(ctx, j, hidden)
	if err != nil {
		p.log.Error("publish trajectory", "request", j.RequestID, "err", err)
		return nil
	}
	return out
}

func (p *Provider) session(ctx context.Context, j *openjob.Job, hidden bool) ([]OutEvent, error) {
	file, err := p.cfg.Store.Content(ctx, j.Result.Replay)
	if err != nil {
		return nil, err
	}
	var short bytes.Buffer
	if err := replay.Redact(bytes.NewReader(file), &short); err != nil {
		return nil, err
	}
	full, redacted := linesOf(file), linesOf(short.Bytes())
	docs := []lifecycle.Document{lifecycle.TrajectorySession{
		SessionID: j.Result.SessionID, Job: j.RequestID, StartedAt: j.Result.StartedAt.Unix(), EndedAt: j.Result.FinishedAt.Unix(),
		Events: int64(len(redacted)), TrajectoryHash: j.Result.Trajectory, Redacted: j.Result.Redacted,
		Visibility: map[bool]string{true: "private", false: "public"}[hidden],
	}}

	for i, line := range redacted {
		if p.cfg.Lifecycle.Kinds.TrajectoryEvent == 0 {
			break
		}
		if hidden && len(full[i]) <= lineBytes {
			line = full[i]
		}
		var head struct {
			Event string `json:"event"`
		}
		if err := json.Unmarshal(line, &head); err != nil {
			return nil, err
		}
		docs = append(docs, lifecycle.TrajectoryEvent{SessionID: j.Result.SessionID, Seq: int64(i + 1), Step: head.Event, Line: line})
	}

	var out []OutEvent
	for i, doc := range docs {
		kind := p.cfg.Lifecycle.Kinds.TrajectoryEvent
		if i == 0 {
			kind = p.cfg.Lifecycle.Kinds.TrajectorySession
		}
		ev, err := p.told(ctx, j, kind, doc, hidden)
		if err != nil {
			return nil, err
		}
		queued, err := p.pub.Queue(ev, j.RequestID)
		if err != nil {
			return nil, err
		}
		out = append(out, queued)
	}

	return out, nil
}

// told is a document as an event for everybody, or for the job's buyer alone:
// then all but its address is in the content.
func (p *Provider) told(ctx context.Context, j *openjob.Job, kind int, doc lifecycle.Document, hidden bool) (nostr.Event, error) {
	if !hidden {
		return p.pub.Lifecycle(ctx, kind, doc, nostr.Tag{"p", j.Buyer})
	}
	_, content, err := lifecycle.Encode(doc)
	if err != nil {
		return nostr.Event{}, err
	}
	secret, err := p.pub.Encrypt(ctx, j.To, content)
	if err != nil {
		return nostr.Event{}, err
	}
	return p.pub.Sign(ctx, kind, lifecycle.DomainOf(doc), nostr.Tags{{"d", lifecycle.Address(doc)}, {"e", j.RequestID}, {"p", j.Buyer}, {"encrypted"}}, secret)
}

// linesOf are the lines of a session: those of the file but its header.
func linesOf(file []byte) [][]byte {
	lines := bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	return lines[1:]
}
