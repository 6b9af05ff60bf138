package deliver

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/lifecycle"
	"github.com/lightwork-market/lightwork/market/job"
	"github.com/lightwork-market/lightwork/replay"
)

// lineBytes is the longest line that is published in full: it grows when it is
// encrypted. A longer one goes without params and payload.
const lineBytes = 24 << 10

// Session publishes the record of a job that is done and, where it has a
// price, paid. What it lacks in room or cipher is no reason to fail the job.
func (d *Delivery) Session(ctx context.Context) []job.OutEvent {
	if d.cfg.Lifecycle.TrajectorySession == 0 || d.job.Result == nil {
		return nil
	}
	hidden := d.cfg.HideSession || d.job.IsSealed() || d.job.To.Scheme != ""
	if hidden && !d.cfg.Encrypts {
		return nil // a remote signer opens and hides nothing
	}
	out, err := d.session(ctx, hidden)
	if err != nil {
		d.log.Error("publish trajectory", "request", d.job.RequestID, "err", err)
		return nil
	}
	return out
}

func (d *Delivery) session(ctx context.Context, hidden bool) ([]job.OutEvent, error) {
	file, err := d.cfg.Store.Content(ctx, d.job.Result.Replay)
	if err != nil {
		return nil, err
	}
	var short bytes.Buffer
	if err := replay.Redact(bytes.NewReader(file), &short); err != nil {
		return nil, err
	}
	full, redacted := linesOf(file), linesOf(short.Bytes())
	docs := []lifecycle.Document{lifecycle.TrajectorySession{
		SessionID: d.job.Result.SessionID, Job: d.job.RequestID, StartedAt: d.job.Result.StartedAt.Unix(), EndedAt: d.job.Result.FinishedAt.Unix(),
		Events: int64(len(redacted)), TrajectoryHash: d.job.Result.Trajectory, Redacted: d.job.Result.Redacted,
		Visibility: map[bool]string{true: "private", false: "public"}[hidden],
	}}

	for i, line := range redacted {
		if d.cfg.Lifecycle.TrajectoryEvent == 0 {
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
		docs = append(docs, lifecycle.TrajectoryEvent{SessionID: d.job.Result.SessionID, Seq: int64(i + 1), Step: head.Event, Line: line})
	}

	var out []job.OutEvent
	for i, doc := range docs {
		kind := d.cfg.Lifecycle.TrajectoryEvent
		if i == 0 {
			kind = d.cfg.Lifecycle.TrajectorySession
		}
		ev, err := d.eventOf(ctx, kind, doc, hidden)
		if err != nil {
			return nil, err
		}
		queued, err := d.cfg.Publisher.Queue(ev, d.job.RequestID)
		if err != nil {
			return nil, err
		}
		out = append(out, queued)
	}

	return out, nil
}

// eventOf is a document as an event for everybody, or for the job's buyer alone:
// then all but its address is in the content.
func (d *Delivery) eventOf(ctx context.Context, kind int, doc lifecycle.Document, hidden bool) (nostr.Event, error) {
	if !hidden {
		return d.cfg.Publisher.Lifecycle(ctx, kind, doc, nostr.Tag{"p", d.job.Buyer})
	}
	_, content, err := lifecycle.Encode(doc)
	if err != nil {
		return nostr.Event{}, err
	}
	secret, err := d.cfg.Publisher.Encrypt(ctx, d.job.To, content)
	if err != nil {
		return nostr.Event{}, err
	}
	return d.cfg.Publisher.Sign(ctx, kind, lifecycle.DomainOf(doc), nostr.Tags{{"d", lifecycle.Address(doc)}, {"e", d.job.RequestID}, {"p", d.job.Buyer}, {"encrypted"}}, secret)
}

// linesOf are the lines of a session: those of the file but its header.
func linesOf(file []byte) [][]byte {
	lines := bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	return lines[1:]
}
