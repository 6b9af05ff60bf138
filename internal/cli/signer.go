package cli

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
	keptPlain  = "file"       // hex or nsec
	keptLocked = "passphrase" // ncryptsec, NIP-49
	keptRemote = "bunker"     // a remote signer, NIP-46
)

// signedKinds are what a role has signed: what a remote signer is asked to allow.
func signedKinds(c *config.Config, role string) []int {
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

// roleKey is what the key file of a role holds, before any passphrase.
type roleKey struct {
	role   string
	path   string
	kept   string
	text   string // the secret line
	public string // hex; of a locked key as the file says, if it does
	remote bunker.Session
}

// readKey reads a role's key file: one line with the key, and in a line after
// it, perhaps, "# npub" of a key that does not show its own.
func readKey(c *config.Config, role string) (roleKey, error) {
	k := roleKey{role: role, path: c.KeyFile(role)}
	text, err := relay.ReadKeyFile(k.path)
	if errors.Is(err, relay.ErrKeyMode) {
		return k, advice.Usage("lightwork doctor checks all of them", "%s key: %w", role, err)
	}
	if err != nil {
		return k, advice.Usage("correct identity."+role+"_key_file, or restore it from your backup; for a new node lightwork init makes one", "%s key: %w", role, err)
	}
	return parseKeyText(k, text)
}

func parseKeyText(k roleKey, text string) (roleKey, error) {
	var note string
	k.text, note, _ = strings.Cut(text, "\n")
	k.text = strings.TrimSpace(k.text)
	var err error
	switch {
	case bunker.IsSession(k.text):
		k.kept = keptRemote
		k.remote, err = bunker.ParseSession(k.text)
		k.public = k.remote.User
	case relay.IsLocked(k.text):
		k.kept = keptLocked
		k.public, _ = receipts.ParseKey(strings.TrimSpace(strings.TrimPrefix(note, "#"))) // checked when it is opened
	default:
		k.kept = keptPlain
		var key *relay.Key
		if key, err = relay.ParseKey(k.text); err == nil {
			k.public = key.PublicKey()
		}
	}
	if err != nil {
		return k, advice.Usage("restore it from your backup; lightwork keys import and lightwork keys connect write such a file", "%s key: %s: %w", k.role, k.path, err)
	}
	return k, nil
}

// open gives the secret key of one that is in a file.
func (k roleKey) open(c *config.Config) (*relay.Key, error) {
	switch k.kept {
	case keptPlain:
		return relay.ParseKey(k.text)
	case keptRemote:
		return nil, advice.Usage("the signer's own program shows it, if anything does", "the %s key is with a remote signer", k.role)
	}
	phrase, err := passphrase(c, k.role, false)
	if err != nil {
		return nil, err
	}
	key, err := relay.Unlock(k.text, phrase)
	if err != nil {
		return nil, advice.Usage("the passphrase comes from "+passphraseSources(c, k.role), "%s key: %s: %w", k.role, k.path, err)
	}
	if k.public != "" && k.public != key.PublicKey() {
		return nil, advice.Usage("restore the file from your backup", "%s key: %s names another key than it holds", k.role, k.path)
	}
	return key, nil
}

// passphraseEnv is the variable that a role's passphrase may come from.
func passphraseEnv(role string) string {
	return "LIGHTWORK_" + strings.ToUpper(role) + "_PASSPHRASE"
}

func passphraseSources(c *config.Config, role string) string {
	return fmt.Sprintf("the file of identity.%s_passphrase_file, from %s, or from the terminal", role, passphraseEnv(role))
}

// passphrase asks for a role's passphrase; a new one is asked for twice. It is
// never taken from the command line, which every user of the machine can read.
func passphrase(c *config.Config, role string, isNew bool) (string, error) {
	if file := c.PassphraseFile(role); file != "" {
		return readSecret(file)
	}
	if phrase := os.Getenv(passphraseEnv(role)); phrase != "" {
		return phrase, nil
	}
	phrase, err := askSecret("passphrase of the " + role + " key")
	if errors.Is(err, errNoTerminal) {
		return "", advice.Usage("give it in "+passphraseSources(c, role), "the %s key has a passphrase: %w", role, err)
	}
	if err != nil || !isNew {
		return phrase, err
	}
	again, err := askSecret("once more")
	if err == nil && again != phrase {
		err = advice.Usage("", "the two passphrases differ")
	}
	return phrase, err
}

var errNoTerminal = errors.New("there is no terminal to ask on")

// askSecret asks on the terminal, without showing what is typed. A terminal is
// the process's own, so it is not among the streams of a command.
func askSecret(what string) (string, error) {
	fd := int(os.Stdin.Fd())
	if !term.IsTerminal(fd) {
		return "", errNoTerminal
	}
	fmt.Fprintf(os.Stderr, "%s: ", what)
	text, err := term.ReadPassword(fd)
	fmt.Fprintln(os.Stderr)
	if err != nil {
		return "", fmt.Errorf("read from the terminal: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// signer signs for a role, with a key in memory or elsewhere.
type signer struct {
	relay.Signer
	cipher provider.Cipher
	remote *bunker.Client // nil for a key in memory
}

var _ provider.Signer = signer{}

// openSigner makes a role's signer. A remote one works while serve runs.
func openSigner(c *config.Config, role string, log *slog.Logger) (signer, error) {
	k, err := readKey(c, role)
	if err != nil {
		return signer{}, err
	}
	if k.kept != keptRemote {
		key, err := k.open(c)
		return signer{Signer: key, cipher: key}, err
	}
	client, err := bunker.New(k.remote, bunker.Config{Log: log})
	if err != nil {
		return signer{}, advice.Usage("lightwork keys connect "+role+" writes it anew", "%s key: %w", role, err)
	}
	return signer{Signer: client, cipher: client, remote: client}, nil
}

// serve keeps the way to a remote signer open until ctx ends.
func (s signer) serve(ctx context.Context) error {
	if s.remote == nil {
		return nil
	}
	err := s.remote.Serve(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// Sign says of a signer's refusal that it is one; that it is away passes.
func (s signer) Sign(ctx context.Context, ev *nostr.Event) error {
	err := s.Signer.Sign(ctx, ev)
	if s.remote == nil || err == nil || errors.Is(err, bunker.ErrAway) || errors.Is(err, bunker.ErrClosed) || ctx.Err() != nil {
		return err
	}
	return fmt.Errorf("%w: %w", provider.ErrSignerRefuses, err)
}
