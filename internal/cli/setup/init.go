// Package setup has the commands that write a configuration and check one.
package setup

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/payments"
)

// Cmd is lightwork init.
type Cmd struct {
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
func (c Cmd) Run(_ context.Context, s *app.Streams) error {
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
	made, err := node.WriteSetup(c.Dir, set)
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
func (c Cmd) next(s *app.Streams, file string) {
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
