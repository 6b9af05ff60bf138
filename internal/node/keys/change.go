package keys

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// NextPath is where a role's next key waits until the change is published.
func NextPath(c *config.Config, role string) string { return c.KeyFile(role) + ".next" }

// OwnChanges is the file of what a role's own keys said of themselves, one event a line,
// as the verifier reads it.
type OwnChanges struct{ path string }

// ChangesOf is the file of a role.
func ChangesOf(c *config.Config, role string) OwnChanges {
	return OwnChanges{filepath.Join(c.DataDir(role), "keys.jsonl")}
}

// maxOwnChanges bounds the file in bytes.
const maxOwnChanges = 4 << 20

// Read reads the file; before the first change there is none.
func (o OwnChanges) Read() ([]receipts.Event, *receipts.KeyHistory, error) {
	fail := func(err error) ([]receipts.Event, *receipts.KeyHistory, error) {
		return nil, nil, advice.Usage("restore it from your backup; the relays have the same events", "key changes: %s: %w", o.path, err)
	}
	info, err := os.Stat(o.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &receipts.KeyHistory{}, nil
	}
	if err != nil || info.Size() > maxOwnChanges {
		return fail(cmp.Or(err, fmt.Errorf("%d bytes, at most %d", info.Size(), maxOwnChanges)))
	}
	text, err := os.ReadFile(o.path)
	if err != nil {
		return fail(err)
	}
	history, err := receipts.ReadKeyHistory(text)
	if err != nil {
		return fail(err)
	}

	var events []receipts.Event
	for line := range bytes.Lines(text) {
		ev, err := receipts.ParseEvent(bytes.TrimSuffix(line, []byte("\n")), receipts.MaxKeyStatementBytes)
		if err != nil {
			return fail(err)
		}
		events = append(events, ev)
	}
	return events, history, nil
}

// Add writes events to the end of the file, all of them or none. It is durable before
// anybody hears of them.
func (o OwnChanges) Add(added ...receipts.Event) error {
	events, _, err := o.Read()
	if err != nil {
		return err
	}
	var text []byte
	for _, ev := range append(events, added...) {
		text = append(append(text, ev.JSON()...), '\n')
	}
	if _, err := receipts.ReadKeyHistory(text); err != nil {
		return err
	}

	if err := os.MkdirAll(filepath.Dir(o.path), 0o700); err != nil {
		return err
	}
	fresh, err := os.CreateTemp(filepath.Dir(o.path), ".keys-*")
	if err != nil {
		return err
	}
	defer os.Remove(fresh.Name())
	_, err = fresh.Write(text)
	if err := cmp.Or(err, fresh.Sync(), fresh.Close()); err != nil {
		return err
	}
	return SwapIn(fresh.Name(), o.path)
}

// SignEnd has a key say that it is used no more; next is "" if none follows.
func SignEnd(ctx context.Context, key relay.Signer, next string, reason receipts.KeyReason) (receipts.Event, error) {
	npub, err := receipts.Npub(key.PublicKey())
	if err != nil {
		return receipts.Event{}, err
	}
	k := receipts.KeyChange{Version: receipts.Version, Key: npub, Reason: reason}
	if next != "" {
		follows, err := receipts.Npub(next)
		if err != nil {
			return receipts.Event{}, err
		}
		k.NextKey = &follows
	}
	ev, err := k.Event(time.Now().Unix())
	if err != nil {
		return receipts.Event{}, err
	}
	return signChange(ctx, key, ev)
}

// SignAcceptance has the next key agree to a statement.
func SignAcceptance(ctx context.Context, next relay.Signer, statement receipts.Event) (receipts.Event, error) {
	ev, err := receipts.AcceptKeyChange(statement, time.Now().Unix())
	if err != nil {
		return receipts.Event{}, err
	}
	return signChange(ctx, next, ev)
}

// signChange signs, and reads what came back as a stranger would.
func signChange(ctx context.Context, key relay.Signer, ev receipts.Event) (receipts.Event, error) {
	signed := ToNostr(ev)
	if err := key.Sign(ctx, &signed); err != nil {
		return receipts.Event{}, fmt.Errorf("sign the key change as %s: %w", display.NPub(key.PublicKey()), err)
	}
	ev, err := FromNostr(signed)
	if err == nil {
		_, err = receipts.ParseKeyStatement(ev)
	}
	return ev, err
}

// ToNostr is the event as relays take it.
func ToNostr(ev receipts.Event) nostr.Event {
	tags := nostr.Tags{}
	for _, tag := range ev.Tags {
		tags = append(tags, tag)
	}
	return nostr.Event{ID: ev.ID, PubKey: ev.PubKey, CreatedAt: nostr.Timestamp(ev.CreatedAt), Kind: ev.Kind, Tags: tags, Content: ev.Content, Sig: ev.Sig}
}

// FromNostr is an event of a relay as the readers of documents take it.
func FromNostr(ev nostr.Event) (receipts.Event, error) {
	doc, err := ev.MarshalJSON()
	if err != nil {
		return receipts.Event{}, err
	}
	return receipts.ParseEvent(doc, receipts.MaxKeyStatementBytes)
}

// EndOf is how a role's key ended, by what it said itself; false if it has not.
func EndOf(c *config.Config, role, key string) (receipts.KeyEnd, bool, error) {
	_, history, err := ChangesOf(c, role).Read()
	if err != nil {
		return receipts.KeyEnd{}, false, err
	}
	end, ended := history.End(key)
	return end, ended, nil
}

// EndedError is why a role does not work under its key.
type EndedError struct {
	Role, Key string
	End       receipts.KeyEnd
}

func (e *EndedError) Error() string {
	return fmt.Sprintf("the %s key %s was %s at %s: nobody is to believe what it signs", e.Role, display.NPub(e.Key), e.End.Reason, display.LocalTime(receipts.Timestamp(e.End.At)))
}

// CheckAlive refuses a role's key that has said that it is used no more.
func CheckAlive(c *config.Config, role, key string) error {
	end, ended, err := EndOf(c, role, key)
	if err != nil || !ended {
		return err
	}
	return advice.Hint(&EndedError{role, key, end}, advice.With(advice.RotateKey, role)+" puts the next key in its place")
}

// OpenWorkError says what a role has to end under its key before that changes.
type OpenWorkError struct {
	Role  string
	Count int    // of jobs, refunds, events or purchases
	First string // a request id; "" if only events wait
}

func (e *OpenWorkError) Error() string {
	what := "%d jobs, refunds or events of the provider are open, such as %s; they end under the key that they began with"
	if e.Role == "buyer" {
		what = "%d purchases, orders or panels of the buyer are open, such as %s; they end under the key that they began with"
	}
	return fmt.Sprintf(what, e.Count, cmp.Or(e.First, "an event that no relay has"))
}
