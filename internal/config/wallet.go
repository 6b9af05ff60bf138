package config

import (
	"fmt"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet/playurl"
	"github.com/lightwork-market/lightwork/receipts"
)

// Cashu is a wallet of notes of one mint.
type Cashu struct {
	Mint     string        `yaml:"mint"`      // the one that is trusted
	SeedFile string        `yaml:"seed_file"` // 12 words, or 128 hex digits
	MaxMsats int64         `yaml:"max_msats"` // what may be at the mint; 0: no bound
	Lock     time.Duration `yaml:"lock"`      // of payments to us; 1h
}

func (c Cashu) check(path string) *Problem {
	if _, err := payments.CashuNetwork(c.Mint); err != nil {
		return Mistake(path+".mint", "must be a mint's host, such as mint.example.com, without https://")
	}

	switch {
	case c.SeedFile == "":
		return Mistake(path+".seed_file", "is needed: "+advice.SetUpCashu+" makes one")
	case c.MaxMsats < 0:
		return Mistake(path+".max_msats", "cannot be negative")
	case c.Lock != 0 && (c.Lock < time.Minute || c.Lock > 24*time.Hour):
		return Mistake(path+".lock", "must be from 1m to 24h")
	}
	return nil
}

// Wallet is a role's wallet: its backend, and the section of that backend.
type Wallet struct {
	Backend string  `yaml:"backend"` // play, lnd, nwc, cashu, onchain or none
	Play    Play    `yaml:"play"`
	LND     LND     `yaml:"lnd"`
	NWC     NWC     `yaml:"nwc"`
	Cashu   Cashu   `yaml:"cashu"`
	Onchain Onchain `yaml:"onchain"`
}

// Play is a wallet of play money, on a ledger of this machine.
type Play struct {
	URL       string `yaml:"url"`
	TokenFile string `yaml:"token_file"`
}

// LND is how an lnd is reached.
type LND struct {
	Address      string           `yaml:"address"`
	TLSCertFile  string           `yaml:"tls_cert_file"`
	MacaroonFile string           `yaml:"macaroon_file"`
	Network      payments.Network `yaml:"network"`
}

// None reports that there is no wallet: only free jobs.
func (w Wallet) None() bool { return w.Backend == "" || w.Backend == "none" }

func (w Wallet) check(path string) *Problem {
	switch w.Backend {
	case "", "none":
		return nil
	case "play":
		if w.Play.URL == "" || w.Play.TokenFile == "" {
			return Mistake(path+".play", "url and token_file are needed")
		}
		if _, err := playurl.Parse(w.Play.URL); err != nil {
			return Mistake(path+".play.url", err.Error())
		}
	case "lnd", BackendOnchain:
		if w.LND.Address == "" || w.LND.TLSCertFile == "" || w.LND.MacaroonFile == "" {
			return Mistake(path+".lnd", "address, tls_cert_file and macaroon_file are needed")
		}
		if _, err := payments.ParseNetwork(string(w.LND.Network)); err != nil && w.LND.Network != "" {
			return Mistake(path+".lnd.network", "must be mainnet, testnet, signet, regtest or simnet")
		}
		return w.Onchain.check(path + ".onchain")
	case "nwc":
		if w.NWC.URIFile == "" {
			return Mistake(path+".nwc", "uri_file is needed: a file with the nostr+walletconnect:// address")
		}
	case string(payments.RailTaprootAssets):
		return Mistake(path+".backend", payments.ErrTaprootAssets.Error())
	case "cashu":
		return w.Cashu.check(path + ".cashu")
	default:
		return Mistake(path+".backend", "must be play, lnd, nwc, cashu, onchain or none")
	}

	return nil
}

// NWC is a wallet that somebody else runs, over Nostr Wallet Connect.
type NWC struct {
	// URIFile holds the nostr+walletconnect:// address, which is a secret.
	URIFile string `yaml:"uri_file"`
}

// BackendOnchain names the coins of an lnd as a wallet.
const BackendOnchain = "onchain"

// Onchain says how the coins of an lnd are used; wallet.lnd says whose.
type Onchain struct {
	Confirmations  int64 `yaml:"confirmations"`     // that make a payment final; 3
	TargetBlocks   int   `yaml:"target_blocks"`     // within which an own payment should be in one; 6
	MaxSatPerVByte int64 `yaml:"max_sat_per_vbyte"` // at most paid for that; 100
}

func (c Onchain) check(path string) *Problem {
	switch {
	case c.Confirmations < 0 || c.Confirmations > 100:
		return Mistake(path+".confirmations", "must be from 1 to 100")
	case c.TargetBlocks < 0 || c.TargetBlocks > 1008:
		return Mistake(path+".target_blocks", "must be from 1 to 1008")
	case c.MaxSatPerVByte < 0:
		return Mistake(path+".max_sat_per_vbyte", "cannot be negative")
	}
	return nil
}

// checkOnchain refuses what the chain cannot do: hold a payment.
func (c *Config) checkOnchain() *Problem {
	if c.Provider.Wallet.Backend == BackendOnchain {
		for i, o := range c.Provider.Offers {
			at := fmt.Sprintf("$.provider.offers[%d]", i)
			if bad := chainModes(at+".modes", o.Modes); bad != nil {
				return bad
			}
			if o.EngagementMsats > 0 {
				return Mistake(at+".engagement_msats", "cannot be asked for on the chain: it would take two transactions")
			}
		}
	}

	if c.Buyer.Wallet.Backend == BackendOnchain {
		if len(c.Buyer.Modes) == 0 {
			return Mistake("$.buyer.modes", "must name prepay, which trusts providers with the price: on the chain nothing else is paid")
		}
		return chainModes("$.buyer.modes", c.Buyer.Modes)
	}
	return nil
}

func chainModes(path string, modes []receipts.Mode) *Problem {
	for i, m := range modes {
		if m != receipts.ModePrepay && m != receipts.ModeFree {
			return Mistake(fmt.Sprintf("%s[%d]", path, i), string(m)+" needs Lightning; on the chain jobs are paid beforehand: prepay, or free")
		}
	}
	return nil
}
