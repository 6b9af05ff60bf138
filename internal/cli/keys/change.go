package keys

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/bunker"
)

type keysRotateCmd struct {
	Role   string `arg:"" help:"provider or buyer." enum:"provider,buyer"`
	Key    string `help:"The next key is in this file; left out: a new one." placeholder:"FILE" xor:"next"`
	Bunker bool   `help:"A remote signer keeps the next key; its address comes by the standard input." xor:"next"`
}

// Run puts the next key into its own file first, so that a run that was interrupted goes
// on with the same.
func (c keysRotateCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	now, err := keys.Read(conf.Config, c.Role)
	if err != nil {
		return err
	}
	if err := oldPlaceFree(now.Path); err != nil {
		return err
	}
	if err := c.prepare(ctx, s, conf, now); err != nil {
		return err
	}

	next, acks, err := conf.Market().RotateKey(ctx, c.Role)
	printAcks(s, acks)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "the %s key is %s now\n", c.Role, display.NPub(next.Public))
	fmt.Fprintf(s.Err, "lightwork: the old key is in %s.old: nobody believes what it signs from now on; keep it for what was encrypted to it\n", now.Path)
	fmt.Fprintln(s.Err, "lightwork: if lightwork relay runs for this node, start it anew: it knows the keys of its owner from its start, and takes blobs of no others")
	return nil
}

// oldPlaceFree refuses a file in the place where the old key is to stay, before anything
// is signed.
func oldPlaceFree(path string) error {
	old, err := os.Lstat(path + ".old")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if here, err := os.Lstat(path); err == nil && os.SameFile(here, old) {
		return nil // a run that was interrupted
	}
	return advice.Usage("move it away", "keep the old key as %s.old: the file exists", path)
}

// prepare makes the file of the next key, unless an earlier run has.
func (c keysRotateCmd) prepare(ctx context.Context, s *app.Streams, conf *node.Node, now keys.RoleKey) error {
	path := keys.NextPath(conf.Config, c.Role)
	if _, err := os.Lstat(path); err == nil {
		if c.Key != "" || c.Bunker {
			return advice.Usage("without a key named the command goes on with that one; remove the file if nothing was signed for it", "%s holds the next key already", path)
		}
		fmt.Fprintf(s.Err, "lightwork: going on with the next key in %s\n", path)
		return nil
	}

	next := keys.RoleKey{Role: c.Role, Path: path, Kept: keys.KeptRemote}
	if c.Bunker {
		if err := connect(ctx, s, conf.Config, &next); err != nil {
			return err
		}
		return keys.ReplaceKey(next)
	}
	if c.Key != "" {
		return keys.KeyMaker(conf.Config, c.Role, c.Key)(path)
	}

	key, err := relay.GenerateKey()
	if err != nil {
		return err
	}
	if now.Kept != keys.KeptLocked {
		return key.WriteFile(path)
	}
	phrase, err := keys.Passphrase(conf.Config, c.Role, false)
	if err != nil {
		return err
	}
	next.Kept, next.Public = keys.KeptLocked, key.PublicKey()
	if next.Text, err = key.Lock(phrase); err != nil {
		return err
	}
	return keys.ReplaceKey(next)
}

func printAcks(s *app.Streams, acks []provider.Ack) {
	said := map[string]string{}
	for _, a := range acks {
		if !a.OK {
			said[a.Relay] = "did not take it: " + a.Message
		} else if said[a.Relay] == "" {
			said[a.Relay] = "took the key change"
		}
	}
	for _, a := range acks {
		if answer, ok := said[a.Relay]; ok {
			fmt.Fprintf(s.Out, "%s  %s\n", display.Printable(a.Relay), display.Printable(answer))
			delete(said, a.Relay)
		}
	}
}

type keysRetireCmd struct {
	Role string `arg:"" help:"provider or buyer." enum:"provider,buyer"`
	Yes  bool   `help:"Do it: nothing takes it back."`
}

// Run says, at once and for good, that the role's key is not to be believed.
func (c keysRetireCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if !c.Yes {
		return advice.Usage("--yes does it; nothing takes it back", "nobody buys from a key that is retired, nor believes what it signs later")
	}
	key, acks, err := conf.Market().RetireKey(ctx, c.Role)
	printAcks(s, acks)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "the %s key %s is retired\n", c.Role, display.NPub(key))
	fmt.Fprintf(s.Err, "lightwork: stop the node if it runs; lightwork keys rotate %s puts a new key in its place\n", c.Role)
	return nil
}

type keysChangesCmd struct {
	Keys []string    `arg:"" optional:"" name:"key" help:"Keys, npub or hex. Left out: those of this node."`
	Out  string      `help:"A new file for lightwork-verify --keys." placeholder:"FILE"`
	Role config.Side `help:"As whom the relays are asked. Left out: who has the only wallet there is; of two the buyer." placeholder:"ROLE"`
	JSON bool        `help:"Print JSON."`
}

// keyChangeView is a key's end as --json shows it.
type keyChangeView struct {
	Key    string             `json:"key"`
	Ended  bool               `json:"ended"`
	At     *time.Time         `json:"at,omitempty"`
	Reason receipts.KeyReason `json:"reason,omitempty"`
	Next   string             `json:"next,omitempty"`
}

// Run shows what is known of keys, and writes what proves it.
func (c keysChangesCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	var asked []string
	for _, text := range c.Keys {
		key, err := receipts.ParseKey(text)
		if err != nil {
			return advice.Usage("a key begins with npub1, or is 64 hex digits", "%q: %w", text, err)
		}
		asked = append(asked, key)
	}
	for _, role := range []string{"provider", "buyer"} {
		if k, err := keys.Read(conf.Config, role); len(c.Keys) == 0 && err == nil && k.Public != "" {
			asked = append(asked, k.Public)
		}
	}

	events, history, err := conf.Market().KeyChanges(ctx, c.Role.Of(conf.Config), asked)
	if err != nil {
		return err
	}
	if c.Out != "" {
		if err := writeChanges(c.Out, events); err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "lightwork: wrote %s to %s\n", display.Count(int64(len(events)), "event"), display.Printable(c.Out))
	}
	return c.show(s, events, history, asked)
}

func writeChanges(name string, events []receipts.Event) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return advice.Usage("name a new file", "--out: %w", err)
	}
	for _, ev := range events {
		if _, err = fmt.Fprintf(f, "%s\n", ev.JSON()); err != nil {
			break
		}
	}
	return errors.Join(err, f.Sync(), f.Close())
}

// show lists the keys that were asked for, and those that changes name.
func (c keysChangesCmd) show(s *app.Streams, events []receipts.Event, history *receipts.KeyHistory, asked []string) error {
	for _, ev := range events {
		if st, err := receipts.ParseKeyStatement(ev); err == nil && !slices.Contains(asked, st.Key) {
			asked = append(asked, st.Key)
		}
	}
	views := []keyChangeView{}
	for _, key := range asked {
		v := keyChangeView{Key: display.NPub(key)}
		if end, ended := history.End(key); ended {
			v.Ended, v.At, v.Reason = true, &end.At, end.Reason
			if end.Next != "" {
				v.Next = display.NPub(end.Next)
			}
		}
		views = append(views, v)
	}

	if c.JSON {
		return app.PrintJSON(s.Out, views)
	}
	for _, v := range views {
		switch {
		case !v.Ended:
			fmt.Fprintf(s.Out, "%s  no end is known\n", v.Key)
		case v.Next == "":
			fmt.Fprintf(s.Out, "%s  %s at %s, no key follows\n", v.Key, v.Reason, v.At.Format(time.RFC3339))
		default:
			fmt.Fprintf(s.Out, "%s  %s at %s, followed by %s\n", v.Key, v.Reason, v.At.Format(time.RFC3339), v.Next)
		}
	}
	return nil
}

// connectTime is how long a signer's owner has to agree.
const connectTime = 5 * time.Minute

// connect introduces this node to the remote signer of a key, whose address it reads.
func connect(ctx context.Context, s *app.Streams, conf *config.Config, k *keys.RoleKey) error {
	text, err := app.SecretInput(s, "bunker address")
	if err != nil {
		return err
	}
	at, err := bunker.ParseAddress(text)
	if err != nil {
		return advice.Usage("the signer's app shows one that begins with bunker://", "%w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()

	fmt.Fprintf(s.Err, "lightwork: asking the signer; it may want its owner to agree\n")
	k.Remote, err = bunker.Connect(ctx, at, keys.SignedKinds(conf, k.Role), bunker.Config{
		Log: s.Log, Timeout: connectTime,
		Approve: func(page string) { fmt.Fprintf(s.Err, "lightwork: agree at %s\n", page) },
	})
	if err != nil {
		return advice.Hint(err, "is the signer running, and the address not used before?")
	}
	if k.Text, err = k.Remote.Text(); err != nil {
		return err
	}
	k.Public = k.Remote.User
	return nil
}
