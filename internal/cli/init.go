package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"syscall"

	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
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
func (c initCmd) Run(_ context.Context, s *streams) error {
	c.Dir = fromHome(c.Dir)
	price := int64(20_000)
	switch {
	case c.PerMinuteMsats != nil:
		price = *c.PerMinuteMsats
	case c.Wallet == backendOnchain: // which carries nothing smaller, and the miners are paid
		price = 2_000_000
	}
	set := setup{
		ProviderWallet: c.Wallet, BuyerWallet: c.Wallet, Relay: c.Relay, PlayURL: "http://127.0.0.1:7448", Name: c.Name,
		PerMinuteMsats: price, Force: c.Force, Mint: c.Mint,
		ProviderLND: lndConfig{"127.0.0.1:10009", "lnd/tls.cert", "lnd/provider.macaroon", ""},
		BuyerLND:    lndConfig{"127.0.0.1:10009", "lnd/tls.cert", "lnd/buyer.macaroon", ""},
	}
	if c.Role == "buyer" {
		set.ProviderWallet, set.NoOffers = "none", true
	}
	if c.Role == "provider" {
		set.BuyerWallet = "none"
	}
	if c.Key != "" {
		if c.Role == "both" {
			return usage("--role provider or --role buyer; lightwork keys import takes the other's", "--key is for one role")
		}
		set.Keys = map[string]string{c.Role: fromHome(c.Key)}
	}
	if _, err := payments.CashuNetwork(c.Mint); err != nil && c.Wallet == "cashu" {
		return usage("--mint mint.example.com: the mint holds the bitcoin, so choose one that you trust", "--mint must be a mint's host, without https://, but got %q", c.Mint)
	}
	if !isAddress(c.Relay, "ws", "wss") {
		return usage("for example --relay wss://relay.example.com", "--relay must be a ws:// or wss:// address without user or password, but got %q", c.Relay)
	}
	file := filepath.Join(c.Dir, defaultConfig)
	made, err := writeSetup(c.Dir, set)
	if errors.Is(err, syscall.ENOTDIR) {
		return usage("name a folder, which need not be there yet", "--dir %s: %w", c.Dir, err)
	}
	if err != nil {
		return err
	}
	for _, name := range made {
		fmt.Fprintf(s.out, "wrote %s\n", name)
	}
	if len(made) == 0 {
		fmt.Fprintf(s.out, "%s and its keys are there; nothing was changed (--force replaces the file)\n", file)
	}
	c.next(s, file)
	return nil
}

// next prints the commands that follow.
func (c initCmd) next(s *streams, file string) {
	g := &globals{Config: file}
	say := func(command, why string) {
		if why != "" {
			command = fmt.Sprintf("%-40s # %s", command, why)
		}
		fmt.Fprintln(s.out, " ", g.spell(command))
	}
	fmt.Fprintln(s.out, "\nnext:")
	if c.Wallet == "nwc" {
		for _, role := range []string{"provider", "buyer"} {
			if c.Role == role || c.Role == "both" {
				fmt.Fprintln(s.out, "  put the nostr+walletconnect:// address into", shellWord(filepath.Join(c.Dir, nwcFile(role))), "(chmod 600)")
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
	case backendOnchain:
		say("lightwork wallet permissions --chain --role refunds", "then put tls.cert and each role's macaroon into "+filepath.Join(c.Dir, "lnd"))
	}
	say("lightwork relay", "unless the relay is another's")
	say("lightwork doctor", "what is missing still")
	if c.Role != "buyer" {
		say("lightwork provider run", "sells the sandbox; agents of your own: docs/build-agents/agents.md")
	}
	if c.Role != "provider" {
		most := "50"
		if c.Wallet == backendOnchain {
			most = "5000"
		}
		say("lightwork buyer submit --cmd 'echo hello' --max-sats "+most, "")
	}
}

// setup is what a new node is made of.
type setup struct {
	ProviderWallet, BuyerWallet string // play, lnd, nwc, cashu, onchain or none
	Mint                        string // with cashu

	Relay          string // ws:// address
	PlayURL        string
	Name           string
	PerMinuteMsats int64
	NoOffers       bool         // of a node that only buys
	MoreOffers     []schemas.ID // beside the sandbox, at the same price
	NoSandbox      bool         // only MoreOffers
	Agent          *agentSetup  // does MoreOffers; nil: the built-in ones do
	Model          modelConfig  // none without an address

	LeastConfinement string // of the sandbox; empty: the default
	ProviderLND      lndConfig
	BuyerLND         lndConfig
	Force            bool
	Keys             map[string]string // by role: the file to take its key from
}

// agentSetup is an agent in the configuration of a new node.
type agentSetup struct{ Dir, ID, Tool string }

// RelayListen is where lightwork relay is to listen: where this node looks for
// it, if that is on this machine.
func (s setup) RelayListen() string {
	u, err := url.Parse(s.Relay)
	if err != nil || u.Scheme != "ws" || u.Port() == "" || !net.ParseIP(u.Hostname()).IsLoopback() {
		return defaultRelayListen
	}
	return u.Host
}

// writeSetup makes keys (never over old ones) and a configuration that works
// with them, keeps a configuration that is there, and names what it wrote.
func writeSetup(dir string, set setup) (made []string, err error) {
	file := filepath.Join(dir, defaultConfig)
	_, err = os.Lstat(file)
	keep := err == nil && !set.Force
	var conf *config
	var text bytes.Buffer
	if keep {
		conf, err = loadConfig(file)
	} else {
		if err := configTemplate.Execute(&text, set); err != nil {
			return nil, err
		}
		conf, err = parseConfig(text.Bytes(), file)
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
	return append(made, file), os.WriteFile(file, text.Bytes(), 0o600)
}

// makeSecrets makes the files that the configuration names and that are not
// there, with their folders.
func makeSecrets(dir string, c *config, keys map[string]string) (made []string, err error) {
	type secret struct {
		file string
		make func(string) error
	}
	want := []secret{
		{c.Identity.ProviderKeyFile, c.keyMaker("provider", keys["provider"])},
		{c.Identity.BuyerKeyFile, c.keyMaker("buyer", keys["buyer"])},
		{c.Identity.RootSecretFile, c.newRootSecret},
	}
	folders := []string{dir}
	for _, w := range []walletConfig{c.Provider.Wallet, c.Buyer.Wallet} {
		switch w.Backend {
		case "play":
			want = append(want, secret{w.Play.TokenFile, newTokenFile})
		case "cashu":
			want = append(want, secret{w.Cashu.SeedFile, newSeedFile})
		case "lnd", backendOnchain: // where the operator puts its files
			folders = append(folders, filepath.Dir(c.path(w.LND.MacaroonFile)))
		}
	}
	for _, s := range want {
		folders = append(folders, filepath.Dir(c.path(s.file)))
	}
	for _, folder := range folders {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, err
		}
	}
	for _, s := range want {
		_, err := os.Lstat(c.path(s.file))
		if !errors.Is(err, fs.ErrNotExist) || s.file == "" {
			continue
		}
		if err := s.make(c.path(s.file)); err != nil {
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
func (c *config) keyMaker(role, from string) func(string) error {
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
			return usage("", "%w", err)
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
func (c *config) newRootSecret(path string) error {
	db := filepath.Join(c.dataDir("provider"), kernel.FileName)
	if _, err := os.Stat(db); err == nil {
		return usage("restore it from your backup; only if that is lost and no payment is under way, move "+c.dataDir("provider")+" away and run lightwork init again",
			"%s is missing and %s needs the old one", path, db)
	}
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return relay.WriteKeyFile(path, hex.EncodeToString(secret[:]))
}

func newTokenFile(path string) error { return relay.WriteKeyFile(path, playnet.NewToken()) }
