// Package keys reads, locks and replaces the keys of a node's roles, and signs with them.
package keys

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/term"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/bunker"
)

// How a role's key is kept.
const (
	KeptPlain  = "file"       // hex or nsec
	KeptLocked = "passphrase" // ncryptsec, NIP-49
	KeptRemote = "bunker"     // a remote signer, NIP-46
)

// SignedKinds are what a role has signed: what a remote signer is asked to allow.
func SignedKinds(c *config.Config, role string) []int {
	if role == "buyer" {
		return kinds.SignedByBuyer()
	}

	list := kinds.SignedByProvider()
	for _, k := range c.Provider.Kinds {
		list = append(list, k+kinds.ResultOffset)
	}

	own := c.Provider.Lifecycle.Provider().Kinds
	for _, k := range []int{own.AgentProfile, own.AgentState, own.TickRequest, own.TickResult, own.TrajectorySession, own.TrajectoryEvent} {
		if k != 0 {
			list = append(list, k)
		}
	}

	return list
}

// RoleKey is what the key file of a role holds, before any passphrase.
type RoleKey struct {
	Role   string
	Path   string
	Kept   string
	Text   string // the secret line
	Public string // hex; of a locked key as the file says, if it does
	Remote bunker.Session
}

// Read reads a role's key file: one line with the key, and in a line after
// it, perhaps, "# npub" of a key that does not show its own.
func Read(c *config.Config, role string) (RoleKey, error) { return ReadAt(c.KeyFile(role), role) }

// ReadAt is Read of another file than the role's own.
func ReadAt(path, role string) (RoleKey, error) {
	k := RoleKey{Role: role, Path: path}
	text, err := relay.ReadKeyFile(k.Path)
	if errors.Is(err, relay.ErrKeyMode) {
		return k, advice.Usage(advice.Check+" checks all of them", "%s key: %w", role, err)
	}
	if err != nil {
		return k, advice.Usage("correct identity."+role+"_key_file, or restore it from your backup; for a new node "+advice.SetUp+" makes one", "%s key: %w", role, err)
	}
	return Parse(k, text)
}

// Parse reads the text of a key file.
func Parse(k RoleKey, text string) (RoleKey, error) {
	var note string
	k.Text, note, _ = strings.Cut(text, "\n")
	k.Text = strings.TrimSpace(k.Text)

	var err error
	switch {
	case bunker.IsSession(k.Text):
		k.Kept = KeptRemote
		k.Remote, err = bunker.ParseSession(k.Text)
		k.Public = k.Remote.User
	case relay.IsLocked(k.Text):
		k.Kept = KeptLocked
		k.Public, _ = receipts.ParseKey(strings.TrimSpace(strings.TrimPrefix(note, "#"))) // checked when it is opened
	default:
		k.Kept = KeptPlain
		var key *relay.Key
		if key, err = relay.ParseKey(k.Text); err == nil {
			k.Public = key.PublicKey()
		}
	}

	if err != nil {
		return k, advice.Usage("restore it from your backup; "+advice.ImportKey+" and "+advice.ConnectKey+" write such a file", "%s key: %s: %w", k.Role, k.Path, err)
	}
	return k, nil
}

// Open gives the secret key of one that is in a file.
func (k RoleKey) Open(c *config.Config) (*relay.Key, error) {
	switch k.Kept {
	case KeptPlain:
		return relay.ParseKey(k.Text)
	case KeptRemote:
		return nil, advice.Usage("the signer's own program shows it, if anything does", "the %s key is with a remote signer", k.Role)
	}

	phrase, err := Passphrase(c, k.Role, false)
	if err != nil {
		return nil, err
	}
	key, err := relay.Unlock(k.Text, phrase)
	if err != nil {
		return nil, advice.Usage("the passphrase comes from "+PassphraseSources(c, k.Role), "%s key: %s: %w", k.Role, k.Path, err)
	}
	if k.Public != "" && k.Public != key.PublicKey() {
		return nil, advice.Usage("restore the file from your backup", "%s key: %s names another key than it holds", k.Role, k.Path)
	}

	return key, nil
}

// passphraseEnv is the variable that a role's passphrase may come from.
func passphraseEnv(role string) string {
	return "LIGHTWORK_" + strings.ToUpper(role) + "_PASSPHRASE"
}

// PassphraseSources says where a role's passphrase may come from.
func PassphraseSources(c *config.Config, role string) string {
	return fmt.Sprintf("the file of identity.%s_passphrase_file, from %s, or from the terminal", role, passphraseEnv(role))
}

// Passphrase asks for a role's passphrase; a new one is asked for twice. It is
// never taken from the command line, which every user of the machine can read.
func Passphrase(c *config.Config, role string, isNew bool) (string, error) {
	if file := c.PassphraseFile(role); file != "" {
		return ReadSecret(file)
	}
	if phrase := os.Getenv(passphraseEnv(role)); phrase != "" {
		return phrase, nil
	}

	phrase, err := AskSecret("passphrase of the " + role + " key")
	if errors.Is(err, ErrNoTerminal) {
		return "", advice.Usage("give it in "+PassphraseSources(c, role), "the %s key has a passphrase: %w", role, err)
	}
	if err != nil || !isNew {
		return phrase, err
	}

	again, err := AskSecret("once more")
	if err == nil && again != phrase {
		err = advice.Usage("", "the two passphrases differ")
	}
	return phrase, err
}

// ErrNoTerminal is why a secret cannot be asked for.
var ErrNoTerminal = errors.New("there is no terminal to ask on")

// AskSecret asks on the terminal, without showing what is typed. A terminal is
// the process's own, so it is not among the streams of a command.
func AskSecret(what string) (string, error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return "", ErrNoTerminal
	}
	fmt.Fprintf(os.Stderr, "%s: ", what)
	text, err := term.ReadPassword(fd)
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return "", fmt.Errorf("read from the terminal: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// Signer signs for a role, with a key in memory or elsewhere.
type Signer struct {
	relay.Signer
	Cipher provider.Cipher
	Remote *bunker.Client // nil for a key in memory
}

var _ provider.Signer = Signer{}

// Open makes a role's signer. A remote one works while serve runs.
func Open(c *config.Config, role string, log *slog.Logger) (Signer, error) {
	k, err := Read(c, role)
	if err != nil {
		return Signer{}, err
	}
	return k.Signer(c, log)
}

// Signer makes a signer of a key that was read.
func (k RoleKey) Signer(c *config.Config, log *slog.Logger) (Signer, error) {
	if k.Kept != KeptRemote {
		key, err := k.Open(c)
		return Signer{Signer: key, Cipher: key}, err
	}

	client, err := bunker.New(k.Remote, bunker.Config{Log: log})
	if err != nil {
		return Signer{}, advice.Usage(advice.With(advice.ConnectKey, k.Role)+" writes it anew", "%s key: %w", k.Role, err)
	}
	return Signer{Signer: client, Cipher: client, Remote: client}, nil
}

// Serve keeps the way to a remote signer open until ctx ends.
func (s Signer) Serve(ctx context.Context) error {
	if s.Remote == nil {
		return nil
	}
	err := s.Remote.Serve(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Sign says of a signer's refusal that it is one; that it is away passes.
func (s Signer) Sign(ctx context.Context, ev *nostr.Event) error {
	err := s.Signer.Sign(ctx, ev)
	if s.Remote == nil || err == nil || errors.Is(err, bunker.ErrAway) || errors.Is(err, bunker.ErrClosed) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", provider.ErrSignerRefuses, err)
}
