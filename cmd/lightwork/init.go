package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"text/template"

	"github.com/lightwork-market/lightwork/payments/playnet"
	"github.com/lightwork-market/lightwork/relay"
)

type initCmd struct {
	Dir            string `help:"Folder for lightwork.yaml, keys and data." default:"." type:"path"`
	Wallet         string `help:"play (play money), lnd or none." default:"play" enum:"play,lnd,none"`
	Relay          string `help:"The relay to use." default:"ws://127.0.0.1:7447" placeholder:"URL"`
	Name           string `help:"What the provider calls itself." default:"a lightwork provider"`
	PerMinuteMsats int64  `name:"per-minute-msats" help:"The price of a minute in the sandbox." default:"20000"`
	Force          bool   `help:"Replace an existing lightwork.yaml. Keys are never replaced."`
}

// Run writes the configuration and says what to do next.
func (c initCmd) Run(_ context.Context, s *streams) error {
	set := setup{
		Wallet: c.Wallet, Relay: c.Relay, PlayURL: "http://127.0.0.1:7448", Name: c.Name,
		PerMinuteMsats: c.PerMinuteMsats, Force: c.Force,
		ProviderLND: lndConfig{"127.0.0.1:10009", "lnd/tls.cert", "lnd/provider.macaroon", ""},
		BuyerLND:    lndConfig{"127.0.0.1:10009", "lnd/tls.cert", "lnd/buyer.macaroon", ""},
	}
	if err := writeSetup(c.Dir, set); err != nil {
		return err
	}
	file := filepath.Join(c.Dir, "lightwork.yaml")
	fmt.Fprintf(s.out, "wrote %s and keys in %s\n\nnext:\n", file, filepath.Join(c.Dir, "keys"))
	fmt.Fprintf(s.out, "  lightwork -c %s doctor\n", file)
	if c.Wallet == "play" {
		fmt.Fprintf(s.out, "  lightwork -c %s wallet play-serve   # play money, worth nothing\n", file)
	}
	fmt.Fprintf(s.out, "  lightwork -c %s relay               # unless the relay is another's\n", file)
	fmt.Fprintf(s.out, "  lightwork -c %s provider run\n", file)
	fmt.Fprintf(s.out, "  lightwork -c %s buyer submit --cmd 'echo hello' --max-msats 50000\n", file)
	return nil
}

// setup is what a new node is made of.
type setup struct {
	Wallet         string // play, lnd or none
	Relay          string // ws:// address
	PlayURL        string
	Name           string
	PerMinuteMsats int64
	ProviderLND    lndConfig
	BuyerLND       lndConfig
	Force          bool
}

// writeSetup makes keys (never over old ones) and a configuration that works
// with them.
func writeSetup(dir string, set setup) error {
	keys := filepath.Join(dir, "keys")
	if err := os.MkdirAll(keys, 0o700); err != nil {
		return err
	}
	file := filepath.Join(dir, "lightwork.yaml")
	if _, err := os.Stat(file); err == nil && !set.Force {
		return usage("--force replaces it; keys are never replaced", "%s exists", file)
	}
	for _, name := range []string{"provider.key", "buyer.key"} {
		if err := once(filepath.Join(keys, name), newKeyFile); err != nil {
			return err
		}
	}
	if err := once(filepath.Join(keys, "preimage.secret"), newSecretFile); err != nil {
		return err
	}
	for _, name := range []string{"play-provider.token", "play-buyer.token"} {
		if set.Wallet != "play" {
			break
		}
		if err := once(filepath.Join(keys, name), newTokenFile); err != nil {
			return err
		}
	}
	var doc bytes.Buffer
	if err := configTemplate.Execute(&doc, set); err != nil {
		return err
	}
	return os.WriteFile(file, doc.Bytes(), 0o600)
}

// once makes a file unless it exists.
func once(path string, make func(string) error) error {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return make(path)
	}
	return err
}

func newKeyFile(path string) error {
	key, err := relay.GenerateKey()
	if err != nil {
		return err
	}
	return key.WriteFile(path)
}

func newSecretFile(path string) error {
	var secret [32]byte
	_, _ = rand.Read(secret[:]) // never fails
	return writeSecret(path, hex.EncodeToString(secret[:]))
}

func newTokenFile(path string) error { return writeSecret(path, playnet.NewToken()) }

func writeSecret(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, text)
	return firstError(err, f.Sync(), f.Close())
}

// configTemplate is the commented configuration.
var configTemplate = template.Must(template.New("lightwork.yaml").Parse(`# Lightwork. Paths are relative to this file. lightwork config check explains errors.
version: 1

node:
  name: {{printf "%q" .Name}}
  # Databases, one folder a role; each is used by one process at a time.
  data_dir: data

# Secrets stay in files that only you can read (mode 0600).
identity:
  provider_key_file: keys/provider.key   # Nostr key (hex or nsec) that sells
  buyer_key_file: keys/buyer.key         # Nostr key that buys
  root_secret_file: keys/preimage.secret # payment preimages derive from it: back it up

relays:
  - {{.Relay}}

# Blossom servers that results are put on. Left out: the relays' own.
# blobs:
#   - https://blobs.example.com

# lightwork relay runs a relay and blob server here.
relay:
  listen: 127.0.0.1:7447

provider:
  about: ""
  wallet:{{template "wallet" .Provider}}
  offers:
    # A minute is the unit of price: a quote is for the longest the job may take.
    - schema: oa.sandbox_run.v1
      modes: [{{if eq .Wallet "none"}}free{{else}}hold, prepay{{end}}] # the first is the default; also postpay, free
      base_msats: 0
      per_minute_msats: {{.PerMinuteMsats}}
  limits:
    concurrent: 2       # jobs at once
    queue_per_buyer: 8
    unpaid_per_buyer: 8 # open invoices of one key
    quote_ttl: 10m

buyer:
  wallet:{{template "wallet" .Buyer}}
  # What we pay at most; 0 is no limit. Every job has a limit of its own too.
  max_msats_per_day: 1000000
  max_msats_per_provider_and_day: 500000
  # prepay is left out: there the provider could keep the money and not deliver.
  modes: [hold, postpay, free]

sandbox:
  # Digests of images that jobs may name beside this host's own toolchain.
  images: []
{{define "wallet"}}
    backend: {{.Backend}}{{if eq .Backend "play"}} # PLAY MONEY, worth nothing; use lnd to earn or pay
    play:
      url: {{.PlayURL}}
      token_file: {{.Token}}{{end}}{{if eq .Backend "lnd"}}
    lnd: # lightwork wallet permissions prints how to bake the macaroon
      address: {{.LND.Address}}
      tls_cert_file: {{.LND.TLSCertFile}}
      macaroon_file: {{.LND.MacaroonFile}}{{end}}{{end}}`))

// walletSetup is one role's wallet in the template.
type walletSetup struct {
	Backend, PlayURL, Token string
	LND                     lndConfig
}

// Provider is the provider's wallet.
func (s setup) Provider() walletSetup {
	return walletSetup{s.Wallet, s.PlayURL, "keys/play-provider.token", s.ProviderLND}
}

// Buyer is the buyer's wallet.
func (s setup) Buyer() walletSetup {
	return walletSetup{s.Wallet, s.PlayURL, "keys/play-buyer.token", s.BuyerLND}
}
