// Package wire says what a gateway needs of the message wire: a stream of its own that
// only it appends to, the streams of its peers, which it only reads, and small records
// that each have one writer. The wire carries copies: the gateway's database is the
// truth, and what the wire loses is published anew.
package wire

import (
	"context"
	"errors"
	"fmt"
)

// Limits of what one gateway takes from another.
const (
	MaxMessage = 256 << 10 // bytes of one message
	MaxRecord  = 16 << 10  // bytes of one record of the control plane
	MaxRecords = 4096      // records that one gateway writes
	MaxCursor  = 1 << 10   // bytes of a cursor
	MaxKey     = 256       // bytes of a record's key
)

// Errors of every wire.
var (
	// ErrClosed: the wire or the remote was closed.
	ErrClosed = errors.New("the wire is closed")
	// ErrUnreachable: the peer does not answer now. It may later.
	ErrUnreachable = errors.New("the peer cannot be reached")
	// ErrUnknownPeer: nobody told this wire how the peer is reached, or the peer does
	// not know this gateway.
	ErrUnknownPeer = errors.New("the peer is not known")
	// ErrNoStream: there is no stream. Reset makes one.
	ErrNoStream = errors.New("there is no stream")
	// ErrTooLarge: a message, a record or a key is over its limit.
	ErrTooLarge = errors.New("over the limit of the wire")
	// ErrKey: a record cannot have this key.
	ErrKey = errors.New("not the key of a record: dots separate one or more of A-Z, a-z, 0-9, _ and -")
	// ErrFull: the wire has no room: on its disk, or for another record.
	ErrFull = errors.New("the wire is full")
)

// CheckKey is an error for what no record's key is: on a wire it could name many records.
func CheckKey(key string) error {
	if len(key) > MaxKey {
		return fmt.Errorf("key %.40q of %d bytes: %w", key, len(key), ErrTooLarge)
	}
	between := true // nothing since the start, or since a dot
	for _, c := range []byte(key) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '-':
			between = false
		case c == '.' && !between:
			between = true
		default:
			return fmt.Errorf("%q: %w", key, ErrKey)
		}
	}
	if between {
		return fmt.Errorf("%q: %w", key, ErrKey)
	}
	return nil
}

// SequenceError is the refusal of a message whose sequence is not the next of the stream.
type SequenceError struct {
	Seq  uint64 // of the message
	Last uint64 // of the stream
}

func (e *SequenceError) Error() string {
	return fmt.Sprintf("message %d does not follow the last message of the stream, %d", e.Seq, e.Last)
}

// Message is one message of a stream.
type Message struct {
	Seq  uint64
	ID   string // by which the wire knows a second copy: <eventId>:<attempt>
	Data []byte
}

// Info is where a stream begins and ends.
type Info struct {
	// Epoch is the name that Reset gave the stream.
	Epoch string
	// First is the lowest sequence that is kept. In an empty stream it is Last+1.
	First uint64
	// Last is the sequence of the last message that was ever appended, or, before the
	// first, one less than the sequence that Reset was given.
	Last uint64
	// Kept counts the messages from First to Last that are there.
	Kept uint64
}

// Outbox is the gateway's own stream.
type Outbox interface {
	// Info fails with ErrNoStream before the first Reset and after the stream was lost.
	Info(ctx context.Context) (Info, error)
	// Append appends messages in order, each only if its sequence is the next one; else
	// it fails with a *SequenceError. It returns when all are as durable as the wire
	// makes them. After another error a first part of them may be in the stream. A
	// message whose sequence and ID are those of a message in the stream may be accepted
	// as the same, or refused with a *SequenceError.
	Append(ctx context.Context, messages []Message) error
	// Read is as that of Remote.
	Read(ctx context.Context, from uint64, count int) ([]Message, error)
	// Purge drops all messages up to and with a sequence. One beyond the last means all.
	Purge(ctx context.Context, upTo uint64) error
	// Reset replaces the stream with an empty one, whose first message will have the
	// sequence first, which is at least 1.
	Reset(ctx context.Context, epoch string, first uint64) error
}

// Records are the control records that this gateway writes, and its peers read.
type Records interface {
	Put(ctx context.Context, key string, value []byte) error
	// Delete of a key that is not there does nothing.
	Delete(ctx context.Context, key string) error
	All(ctx context.Context) (map[string][]byte, error)
}

// Remote is a peer's side of the wire. Its methods fail with ErrUnreachable while the
// peer does not answer; they do not wait longer than their context.
type Remote interface {
	// Info of the peer's stream.
	Info(ctx context.Context) (Info, error)
	// Read returns up to count messages of the peer's stream with sequences of at least
	// from, in order. A sequence that is missing is left out. The peer is not believed:
	// each message is at most MaxMessage bytes, else ErrTooLarge with the messages
	// before it.
	Read(ctx context.Context, from uint64, count int) ([]Message, error)
	// Records are all that the peer wrote: at most MaxRecords, of MaxRecord bytes each.
	Records(ctx context.Context) (map[string][]byte, error)
	// PutCursor tells the peer how far this gateway has read. It is the only thing that
	// one gateway writes at another.
	PutCursor(ctx context.Context, cursor []byte) error
	// Wake gets a value after the peer appended or wrote a record. Values may be lost
	// or come without reason, so who waits for one also looks now and then.
	Wake() <-chan struct{}
	Close() error
}

// Wire is one gateway's connection to the wire.
type Wire interface {
	Outbox() Outbox
	Records() Records
	// Cursors are what peers told with PutCursor, by the peer's node id. A node that is
	// no peer any more is not among them.
	Cursors(ctx context.Context) (map[string][]byte, error)
	// Dial makes the remote of a peer. It does not wait until the peer answers. It fails
	// with ErrUnknownPeer.
	Dial(ctx context.Context, node string) (Remote, error)
	// Close ends the wire and its remotes. The owner of the remotes closes them before.
	Close() error
}
