package natswire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lightwork-market/lightwork/cluster/wire"
)

const (
	batchCount = 256     // messages of one request
	batchBytes = 4 << 20 // bytes of one answer, or one message if it is larger
)

// answerTime is how long a server may take for one answer.
const answerTime = 5 * time.Second

// fault says in the wire's words what the server answered.
func fault(err error) error {
	var api *jetstream.APIError
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrStreamNotFound), errors.Is(err, jetstream.ErrNoStreamResponse), errors.Is(err, nats.ErrNoResponders):
		return wire.ErrNoStream
	case errors.Is(err, nats.ErrConnectionClosed):
		return wire.ErrClosed
	case errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: %w", wire.ErrTooLarge, err)
	case errors.As(err, &api) && (api.ErrorCode == 10023 || api.ErrorCode == 10047 || api.ErrorCode == 10077):
		return fmt.Errorf("%w: %w", wire.ErrFull, err)
	}
	return err
}

// asker is a connection, with the prefix that the server's interface has there.
type asker struct {
	*nats.Conn
	api string
}

// ask sends one request, and gives each answer to take until it says that it was the last.
func ask(ctx context.Context, conn asker, subject string, request any, take func(*nats.Msg) (last bool, err error)) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	to := conn.NewRespInbox()
	sub, err := conn.SubscribeSync(to)
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := conn.PublishRequest(subject, to, body); err != nil {
		return err
	}

	for {
		msg, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return err
		}
		if last, err := take(msg); last || err != nil {
			return err
		}
	}
}

// where asks a stream for its bounds.
func where(ctx context.Context, conn asker, stream string) (wire.Info, error) {
	var answer struct {
		Error  *jetstream.APIError    `json:"error"`
		Config jetstream.StreamConfig `json:"config"`
		State  jetstream.StreamState  `json:"state"`
	}
	err := ask(ctx, conn, conn.api+"STREAM.INFO."+stream, struct{}{}, func(m *nats.Msg) (bool, error) {
		if m.Header.Get("Status") == "503" {
			return true, wire.ErrNoStream
		}
		return true, json.Unmarshal(m.Data, &answer)
	})
	if err != nil {
		return wire.Info{}, err
	}
	if answer.Error != nil {
		return wire.Info{}, fault(answer.Error)
	}

	info := wire.Info{
		Epoch: answer.Config.Metadata[epochField],
		First: answer.State.FirstSeq, Last: answer.State.LastSeq, Kept: answer.State.Msgs,
	}
	if info.Kept == 0 {
		info.First = info.Last + 1
	}
	return info, nil
}

// get reads up to count messages of a stream. Each is given to take.
func get(ctx context.Context, conn asker, stream string, from uint64, count int, take func(seq uint64, m *nats.Msg) error) error {
	info, err := where(ctx, conn, stream)
	if err != nil {
		return err
	}

	from = max(from, info.First, 1)
	for count > 0 && from <= info.Last {
		taken := 0
		request := map[string]any{"seq": from, "batch": min(count, batchCount), "max_bytes": batchBytes}
		err := ask(ctx, conn, conn.api+"DIRECT.GET."+stream, request, func(m *nats.Msg) (bool, error) {
			switch status := m.Header.Get("Status"); status {
			case "":
			case "204", "404":
				return true, nil
			default:
				return true, fmt.Errorf("the server answers %s %.100q", status, m.Header.Get("Description"))
			}
			seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
			if err != nil || seq < from || taken >= count {
				return true, errors.New("the server answers with a message that was not asked for")
			}
			from, taken = seq+1, taken+1
			return false, take(seq, m)
		})
		if err != nil {
			return err
		}
		if taken == 0 {
			return nil
		}
		count -= taken
	}
	return nil
}

func read(ctx context.Context, conn asker, from uint64, count int) ([]wire.Message, error) {
	var all []wire.Message
	err := get(ctx, conn, outboxStream, from, count, func(seq uint64, m *nats.Msg) error {
		if len(m.Data) > wire.MaxMessage {
			return fmt.Errorf("message %d of %d bytes: %w", seq, len(m.Data), wire.ErrTooLarge)
		}
		all = append(all, wire.Message{Seq: seq, ID: m.Header.Get(jetstream.MsgIDHeader), Data: m.Data})
		return nil
	})
	return all, err
}

func list(ctx context.Context, conn asker) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := get(ctx, conn, recordStream, 1, wire.MaxRecords, func(_ uint64, m *nats.Msg) error {
		key, ok := strings.CutPrefix(m.Header.Get("Nats-Subject"), recordSubject)
		if err := wire.CheckKey(key); !ok || err != nil {
			return fmt.Errorf("a record's key: %w", cmp.Or(err, wire.ErrKey))
		}
		if len(m.Data) > wire.MaxRecord {
			return fmt.Errorf("record %.40q of %d bytes: %w", key, len(m.Data), wire.ErrTooLarge)
		}
		all[key] = m.Data
		return nil
	})
	return all, err
}

// Outbox implements wire.Wire.
func (w *Wire) Outbox() wire.Outbox { return outbox{w} }

// Records implements wire.Wire.
func (w *Wire) Records() wire.Records { return records{w} }

type outbox struct{ w *Wire }

func (o outbox) Info(ctx context.Context) (wire.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	info, err := where(ctx, asker{o.w.conn, ownAPI}, outboxStream)
	return info, fault(err)
}

func (o outbox) Read(ctx context.Context, from uint64, count int) ([]wire.Message, error) {
	all, err := read(ctx, asker{o.w.conn, ownAPI}, from, count)
	return all, fault(err)
}

// Append sends all messages before it waits for the first answer. Each names the sequence
// before it, so that none is stored after one that was not.
func (o outbox) Append(ctx context.Context, messages []wire.Message) error {
	var sent []jetstream.PubAckFuture
	var failure error
	for _, m := range messages {
		if len(m.Data) > wire.MaxMessage {
			failure = fmt.Errorf("message %d of %d bytes: %w", m.Seq, len(m.Data), wire.ErrTooLarge)
			break
		}
		msg := &nats.Msg{Subject: outboxSubject, Data: m.Data}
		ack, err := o.w.js.PublishMsgAsync(msg, jetstream.WithMsgID(m.ID), jetstream.WithExpectLastSequence(m.Seq-1))
		if err != nil {
			failure = fault(err)
			break
		}
		sent = append(sent, ack)
	}

	for i, future := range sent {
		select {
		case ack := <-future.Ok():
			if ack.Sequence != messages[i].Seq {
				return &wire.SequenceError{Seq: messages[i].Seq, Last: ack.Sequence}
			}
		case err := <-future.Err():
			return o.refusal(ctx, messages[i].Seq, err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return errors.Join(failure, o.w.conn.Publish(wakeSubject, nil))
}

func (o outbox) refusal(ctx context.Context, seq uint64, err error) error {
	var api *jetstream.APIError
	if !errors.As(err, &api) || api.ErrorCode != jetstream.JSErrCodeStreamWrongLastSequence {
		return fault(err)
	}
	info, err := o.Info(ctx)
	if err != nil {
		return err
	}
	return &wire.SequenceError{Seq: seq, Last: info.Last}
}

func (o outbox) Purge(ctx context.Context, upTo uint64) error {
	stream, err := o.w.js.Stream(ctx, outboxStream)
	if err != nil {
		return fault(err)
	}
	last := stream.CachedInfo().State.LastSeq
	return fault(stream.Purge(ctx, jetstream.WithPurgeSequence(min(upTo, last)+1)))
}

func (o outbox) Reset(ctx context.Context, epoch string, first uint64) error {
	if err := o.w.js.DeleteStream(ctx, outboxStream); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return fault(err)
	}
	if _, err := o.w.js.CreateStream(ctx, outboxConfig(epoch, first)); err != nil {
		return fault(err)
	}
	return o.w.conn.Publish(wakeSubject, nil)
}

type records struct{ w *Wire }

func (r records) Put(ctx context.Context, key string, value []byte) error {
	if err := wire.CheckKey(key); err != nil {
		return err
	}
	if len(value) > wire.MaxRecord {
		return fmt.Errorf("record %.40q of %d bytes: %w", key, len(value), wire.ErrTooLarge)
	}
	if _, err := r.w.js.Publish(ctx, recordSubject+key, value); err != nil {
		return fault(err)
	}
	return r.w.conn.Publish(wakeSubject, nil)
}

func (r records) Delete(ctx context.Context, key string) error {
	if err := wire.CheckKey(key); err != nil {
		return err
	}
	stream, err := r.w.js.Stream(ctx, recordStream)
	if err != nil {
		return fault(err)
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSubject(recordSubject+key)); err != nil {
		return fault(err)
	}
	return r.w.conn.Publish(wakeSubject, nil)
}

func (r records) All(ctx context.Context) (map[string][]byte, error) {
	all, err := list(ctx, asker{r.w.conn, ownAPI})
	return all, fault(err)
}

// Cursors implements wire.Wire.
func (w *Wire) Cursors(ctx context.Context) (map[string][]byte, error) {
	all := map[string][]byte{}
	for node := range w.peers {
		stream, err := w.js.Stream(ctx, cursorStream+node)
		if err != nil {
			return nil, fault(err)
		}
		m, err := stream.GetLastMsgForSubject(ctx, cursorSubject+node)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			continue
		case err != nil:
			return nil, fault(err)
		case len(m.Data) <= wire.MaxCursor:
			all[node] = m.Data
		}
	}
	return all, nil
}
