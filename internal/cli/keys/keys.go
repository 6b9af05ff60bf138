// Package keys has the commands that make, show, import and encrypt the keys of a
// node.
package keys

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/keys"
	"github.com/lightwork-market/lightwork/relay"
)

// Cmd is lightwork keys.
type Cmd struct {
	Show    keysShowCmd    `cmd:"" help:"Show the public keys, and how each secret one is kept."`
	Import  keysImportCmd  `cmd:"" help:"Take a key (nsec, hex or ncryptsec) from the standard input."`
	Lock    keysLockCmd    `cmd:"" help:"Lock a key file with a passphrase (NIP-49)."`
	Connect keysConnectCmd `cmd:"" help:"Have a remote signer (NIP-46 bunker) keep a key."`
	Rotate  keysRotateCmd  `cmd:"" help:"Change a role's key: the old one announces the next."`
	Retire  keysRetireCmd  `cmd:"" help:"Say that a role's key is believed no more, because others may hold it."`
	Changes keysChangesCmd `cmd:"" help:"Show which keys ended, and write what proves it."`
}

// keyView is a key as --json shows it.
type keyView struct {
	Role   string   `json:"role"`
	Npub   string   `json:"npub,omitempty"`
	PubKey string   `json:"pubkey,omitempty"`
	Kept   string   `json:"kept"` // file, passphrase or bunker
	File   string   `json:"file"`
	Signer string   `json:"signer,omitempty"` // npub by which a remote signer is addressed
	Relays []string `json:"relays,omitempty"`
	Kinds  []int    `json:"kinds,omitempty"`
	Nsec   string   `json:"nsec,omitempty"` // with --secret alone
}

func viewOfKey(k keys.RoleKey) keyView {
	v := keyView{Role: k.Role, PubKey: k.Public, Kept: k.Kept, File: k.Path, Relays: k.Remote.Relays, Kinds: k.Remote.Kinds}
	if k.Public != "" {
		v.Npub = display.NPub(k.Public)
	}
	if k.Remote.Signer != "" {
		v.Signer = display.NPub(k.Remote.Signer)
	}
	return v
}

type keysShowCmd struct {
	Role   string `help:"provider, buyer or both." default:"both" enum:"provider,buyer,both"`
	Secret bool   `help:"Print the secret key of the one role too, as nsec: whoever sees it owns the key."`
	JSON   bool   `help:"Print JSON."`
}

// Run shows keys; secrets only where it was asked for in so many words.
func (c keysShowCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	roles := []string{c.Role}
	if c.Role == "both" {
		roles = []string{"provider", "buyer"}
	}
	if c.Secret && len(roles) > 1 {
		return advice.Usage("for example --role buyer --secret", "--secret is for one role")
	}

	var views []keyView
	for _, role := range roles {
		k, err := keys.Read(conf.Config, role)
		if err != nil {
			return err
		}
		v := viewOfKey(k)
		if c.Secret {
			if v.Nsec, err = nsecOf(conf.Config, k); err != nil {
				return err
			}
		}
		views = append(views, v)
	}

	if c.JSON {
		return app.PrintJSON(s.Out, views)
	}
	for _, v := range views {
		printKey(s.Out, v)
	}
	return nil
}

func nsecOf(c *config.Config, k keys.RoleKey) (string, error) {
	key, err := k.Open(c)
	if err != nil {
		return "", err
	}
	return key.NSEC()
}

func printKey(w io.Writer, v keyView) {
	fmt.Fprintf(w, "%-9s %s\n", v.Role, cmp.Or(v.Npub, "(the file is locked and does not say)"))
	if v.PubKey != "" {
		fmt.Fprintf(w, "  hex     %s\n", v.PubKey)
	}
	fmt.Fprintf(w, "  kept    %s, %s\n", v.Kept, v.File)
	if v.Kept == keys.KeptRemote {
		fmt.Fprintf(w, "  signer  %s at %s\n  kinds   %s\n", v.Signer, display.Printable(strings.Join(v.Relays, " ")), strings.Trim(fmt.Sprint(v.Kinds), "[]"))
	}
	if v.Nsec != "" {
		fmt.Fprintf(w, "  secret  %s\n", v.Nsec)
	}
}

type keysImportCmd struct {
	Role  string `arg:"" help:"provider or buyer." enum:"provider,buyer"`
	Force bool   `help:"Replace the key that is there; it stays beside it as FILE.old."`
}

// Run writes the key into the role's key file. A key comes by the standard
// input alone: a command line is there for every user to read.
func (c keysImportCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	text, err := app.SecretInput(s, "key (nsec, ncryptsec or hex)")
	if err != nil {
		return err
	}
	k, err := keys.Parse(keys.RoleKey{Role: c.Role, Path: conf.KeyFile(c.Role)}, text)
	if err != nil || k.Kept == keys.KeptRemote {
		return advice.Usage("a key begins with nsec1 or ncryptsec1, or is 64 hex digits", "that is no key")
	}
	if k.Kept == keys.KeptLocked {
		key, err := k.Open(conf.Config) // one that cannot be opened is found out now
		if err != nil {
			return err
		}
		k.Public = key.PublicKey()
	}

	if err := keys.PlaceKey(k, c.Force); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "the %s key is %s, in %s\n", c.Role, display.NPub(k.Public), k.Path)
	return nil
}

type keysLockCmd struct {
	Role string `arg:"" help:"provider or buyer." enum:"provider,buyer"`
}

// Run locks the role's key file in its place.
func (c keysLockCmd) Run(s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	k, err := keys.Read(conf.Config, c.Role)
	if err != nil {
		return err
	}
	if k.Kept != keys.KeptPlain {
		return advice.Usage("lightwork keys show says how", "the %s key is not in the clear", c.Role)
	}

	key, err := k.Open(conf.Config)
	if err != nil {
		return err
	}
	phrase, err := keys.Passphrase(conf.Config, c.Role, true)
	if err != nil {
		return err
	}
	if k.Text, err = key.Lock(phrase); err != nil {
		return advice.Usage("give one in "+keys.PassphraseSources(conf.Config, c.Role), "%w", err)
	}
	if _, err := relay.Unlock(k.Text, phrase); err != nil {
		return fmt.Errorf("check the locked key: %w", err) // before the only other copy goes
	}

	k.Kept = keys.KeptLocked
	if err := keys.ReplaceKey(k); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s is locked; without the passphrase nobody sells or buys as %s\n", k.Path, display.NPub(k.Public))
	return nil
}

type keysConnectCmd struct {
	Role  string `arg:"" help:"provider or buyer." enum:"provider,buyer"`
	Force bool   `help:"Replace the key that is there; it stays beside it as FILE.old."`
}

// Run introduces this node to a remote signer. The bunker:// address comes by
// the standard input: it holds a secret.
func (c keysConnectCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	k := keys.RoleKey{Role: c.Role, Path: conf.KeyFile(c.Role), Kept: keys.KeptRemote}
	if err := keys.PlaceFree(k.Path, c.Force); err != nil {
		return err // before the address, which is good once, is spent
	}
	if err := connect(ctx, s, conf.Config, &k); err != nil {
		return err
	}
	if err := keys.PlaceKey(k, c.Force); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "the %s key is %s, kept by the signer %s\n", c.Role, display.NPub(k.Public), display.NPub(k.Remote.Signer))
	return nil
}
