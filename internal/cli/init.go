package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/relay"
)

type initCmd struct {
	Dir            string `help:"Folder for lightwork.yaml, keys and data." default:"."`
	Role           string `help:"Whose wallet to set up: provider, buyer or both; the other has none." default:"both" enum:"provider,buyer,both"`
	Wallet         string `help:"play (play money), lnd, nwc (Nostr Wallet Connect), cashu, onchain (an lnd's coins, for larger prepaid jobs) or none." default:"play" enum:"play,lnd,nwc,cashu,onchain,none"`
	Mint           string `help:"The Cashu mint to trust, without https://; needed with --wallet cashu." placeholder:"HOST"`
	Relay          string `help:"The relay to use." default:"ws://127.0.0.1:7447" placeholder:"URL"`
	Name           string `help:"What the provider calls itself." default:"a lightwork provider"`
	PerMinuteMsats *int64 `name:"per-minute-msats" help:"The price of a minute in the sandbox; 20000 if left out, on the chain 2000000."`
	Key            string `help:"File with the Nostr key of the one role (nsec, hex or ncryptsec); left out, a new one is made." placeholder:"FILE"`
	Force          bool   `help:"Replace an existing lightwork.yaml; a copy stays as lightwork.yaml.old. Keys are never replaced."`
}

// Run writes what is missing of a node and says what to do next.
func (c initCmd) Run(_ context.Context, s *app.Streams) error {
	c.Dir = display.FromHome(c.Dir)
	price := int64(20_000)
	switch {
	case c.PerMinuteMsats != nil:
		price = *c.PerMinuteMsats
	case c.Wallet == config.BackendOnchain: // which carries nothing smaller, and the miners are paid
		price = 2_000_000
	}
	set := config.Setup{
		ProviderWallet: c.Wallet, BuyerWallet: c.Wallet, Relay: c.Relay, PlayURL: "http://127.0.0.1:7448", Name: c.Name,
		PerMinuteMsats: price, Force: c.Force, Mint: c.Mint,
		ProviderLND: config.LND{Address: "127.0.0.1:10009", TLSCertFile: "lnd/tls.cert", MacaroonFile: "lnd/provider.macaroon"},
		BuyerLND:    config.LND{Address: "127.0.0.1:10009", TLSCertFile: "lnd/tls.cert", MacaroonFile: "lnd/buyer.macaroon"},
	}
	if c.Role == "buyer" {
		set.ProviderWallet, set.NoOffers = "none", true
	}
	if c.Role == "provider" {
		set.BuyerWallet = "none"
	}
	if c.Key != "" {
		if c.Role == "both" {
			return advice.Usage("--role provider or --role buyer; lightwork keys import takes the other's", "--key is for one role")
		}
		set.Keys = map[string]string{c.Role: display.FromHome(c.Key)}
	}
	if _, err := payments.CashuNetwork(c.Mint); err != nil && c.Wallet == "cashu" {
		return advice.Usage("--mint mint.example.com: the mint holds the bitcoin, so choose one that you trust", "--mint must be a mint's host, without https://, but got %q", c.Mint)
	}
	if !config.IsAddress(c.Relay, "ws", "wss") {
		return advice.Usage("for example --relay wss://relay.example.com", "--relay must be a ws:// or wss:// address without user or password, but got %q", c.Relay)
	}
	file := filepath.Join(c.Dir, config.DefaultFile)
	made, err := writeSetup(c.Dir, set)
	if errors.Is(err, syscall.ENOTDIR) {
		return advice.Usage("name a folder, which need not be there yet", "--dir %s: %w", c.Dir, err)
	}
	if err != nil {
		return err
	}
	for _, name := range made {
		fmt.Fprintf(s.Out, "wrote %s\n", name)
	}
	if len(made) == 0 {
		fmt.Fprintf(s.Out, "%s and its keys are there; nothing was changed (--force replaces the file)\n", file)
	}
	c.next(s, file)
	return nil
}

// next prints the commands that follow.
func (c initCmd) next(s *app.Streams, file string) {
	g := &app.Globals{Config: file}
	say := func(command, why string) {
		if why != "" {
			command = fmt.Sprintf("%-40s # %s", command, why)
		}
		fmt.Fprintln(s.Out, " ", g.Spell(command))
	}
	fmt.Fprintln(s.Out, "\nnext:")
	if c.Wallet == "nwc" {
		for _, role := range []string{"provider", "buyer"} {
			if c.Role == role || c.Role == "both" {
				fmt.Fprintln(s.Out, "  put the nostr+walletconnect:// address into", display.ShellWord(filepath.Join(c.Dir, config.NWCFile(role))), "(chmod 600)")
			}
		}
	}
	if c.Wallet == "cashu" {
		say("lightwork wallet cashu-seed", "12 words to write down: whoever has them has the money")
	}
	if c.Wallet == "cashu" && c.Role != "provider" {
		say("lightwork wallet cashu-topup 1000", "sats; no more than you would lose with the mint")
	}
	if c.Wallet == "play" {
		say("lightwork wallet play-serve", "play money, worth nothing")
	}
	switch c.Wallet {
	case "lnd":
		say("lightwork wallet permissions", "then put tls.cert and macaroon into "+filepath.Join(c.Dir, "lnd"))
	case config.BackendOnchain:
		say("lightwork wallet permissions --chain --role refunds", "then put tls.cert and each role's macaroon into "+filepath.Join(c.Dir, "lnd"))
	}
	say("lightwork relay", "unless the relay is another's")
	say("lightwork doctor", "what is missing still")
	if c.Role != "buyer" {
		say("lightwork provider run", "sells the sandbox; agents of your own: docs/build-agents/agents.md")
	}
	if c.Role != "provider" {
		most := "50"
		if c.Wallet == config.BackendOnchain {
			most = "5000"
		}
		say("lightwork buyer submit --cmd 'echo hello' --max-sats "+most, "")
	}
}

// writeSetup makes keys (never over old ones) and a configuration that works
// with them, keeps a configuration that is there, and names what it wrote.
func writeSetup(dir string, set config.Setup) (made []string, err error) {
	file := filepath.Join(dir, config.DefaultFile)
	_, err = os.Lstat(file)
	keep := err == nil && !set.Force
	var conf *config.Config
	var text []byte
	if keep {
		conf, err = config.Load(file)
	} else {
		if text, err = set.Text(); err != nil {
			return nil, err
		}
		conf, err = config.Parse(text, file)
	}
	if err != nil {
		return nil, err
	}
	if made, err = makeSecrets(dir, conf, set.Keys); err != nil {
		return made, err
	}
	if keep {
		return made, nil
	}
	switch err := os.Rename(file, file+".old"); {
	case err == nil:
		made = append(made, file+".old (what "+file+" was)")
	case !errors.Is(err, fs.ErrNotExist):
		return made, err
	}
	return append(made, file), os.WriteFile(file, text, 0o600)
}

// makeSecrets makes the files that the configuration names and that are not
// there, with their folders.
func makeSecrets(dir string, c *config.Config, keys map[string]string) (made []string, err error) {
	type secret struct {
		file string
		make func(string) error
	}
	want := []secret{
		{c.Identity.ProviderKeyFile, keyMaker(c, "provider", keys["provider"])},
		{c.Identity.BuyerKeyFile, keyMaker(c, "buyer", keys["buyer"])},
		{c.Identity.RootSecretFile, func(path string) error { return newRootSecret(c, path) }},
	}
	folders := []string{dir}
	for _, w := range []config.Wallet{c.Provider.Wallet, c.Buyer.Wallet} {
		switch w.Backend {
		case "play":
			want = append(want, secret{w.Play.TokenFile, newTokenFile})
		case "cashu":
			want = append(want, secret{w.Cashu.SeedFile, newSeedFile})
		case "lnd", config.BackendOnchain: // where the operator puts its files
			folders = append(folders, filepath.Dir(c.Path(w.LND.MacaroonFile)))
		}
	}
	for _, s := range want {
		folders = append(folders, filepath.Dir(c.Path(s.file)))
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	for _, s := range want {
		_, err := os.Lstat(c.Path(s.file))
		if !errors.Is(err, fs.ErrNotExist) || s.file == "" {
			continue
		}
		if err := s.make(c.Path(s.file)); err != nil {
			return made, err
		}
		name := s.file
		if !filepath.IsAbs(name) {
			name = filepath.Join(dir, name)
		}
		made = append(made, name)
	}
	return made, nil
}

// keyMaker makes a role's key file: from the file that has the key, or anew.
func keyMaker(c *config.Config, role, from string) func(string) error {
	return func(path string) error {
		if from == "" {
			key, err := relay.GenerateKey()
			if err != nil {
				return err
			}
			return key.WriteFile(path)
		}
		text, err := relay.ReadKeyFile(from)
		if err != nil {
			return advice.Usage("", "%w", err)
		}
		k, err := parseKeyText(roleKey{role: role, path: from}, text)
		if err != nil {
			return err
		}
		k.path = path
		return replaceKey(k)
	}
}

// newRootSecret makes the preimage secret of a new node. Beside a database it
// would be the wrong one: payments that are under way could not be settled.
func newRootSecret(c *config.Config, path string) error {
	db := filepath.Join(c.DataDir("provider"), kernel.FileName)
	if _, err := os.Stat(db); err == nil {
		return advice.Usage("restore it from your backup; only if that is lost and no payment is under way, move "+c.DataDir("provider")+" away and run lightwork init again",
			"%s is missing and %s needs the old one", path, db)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return relay.WriteKeyFile(path, hex.EncodeToString(secret[:]))
}

func newTokenFile(path string) error { return relay.WriteKeyFile(path, playnet.NewToken()) }
