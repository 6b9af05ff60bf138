package health

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/node/wallets"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/cashu"
	"github.com/lightwork-market/lightwork/payments/lnd"
	"github.com/lightwork-market/lightwork/payments/nwc"
	"github.com/lightwork-market/lightwork/payments/onchain"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

const (
	relayTimeout = 5 * time.Second
	clockSkewMax = 30 * time.Second
	noTime       = "no relay told the time"
)

// CheckRelays asks each relay for its information document; the answer's date
// tells how our clock stands.
func CheckRelays(ctx context.Context, c *config.Config) []Finding {
	var all []Finding
	clock := Finding{"clock", "warn", noTime, "it is compared once a relay answers"}
	for _, r := range c.Relays {
		date, took, err := askRelay(ctx, r)
		if err != nil {
			fix := "correct the address, or name another under relays"
			if strings.TrimRight(r, "/") == "ws://"+cmp.Or(c.Relay.Listen, config.DefaultRelayListen) {
				fix = "start it (" + advice.RunRelay + ") or name another under relays"
			}
			all = append(all, Finding{"relay", "fail", fmt.Sprintf("%s: %v", r, err), fix})
			continue
		}

		all = append(all, Finding{"relay", "ok", fmt.Sprintf("%s answers in %d ms", r, took.Milliseconds()), ""})
		if f := checkGiftWraps(ctx, c, r); f.State != "" {
			all = append(all, f)
		}
		if date.IsZero() {
			continue
		}

		skew := time.Since(date).Abs().Round(time.Second)
		switch {
		case skew > clockSkewMax:
			clock = Finding{"clock", "warn", fmt.Sprintf("%v apart from %s", skew, r), "set this machine's clock by NTP (timedatectl set-ntp true), unless it is the relay's that is wrong: events from the future are refused"}
		case clock.State != "ok" && clock.Detail != noTime: // another relay's is far from ours
		default:
			clock = Finding{"clock", "ok", fmt.Sprintf("within %v of the relay's", skew+time.Second), ""}
		}
	}

	all = append(all, clock)
	for _, b := range c.BlobServers() {
		all = append(all, checkBlobs(ctx, c, b))
	}
	return all
}

// checkBlobs asks for a blob that nobody has: a Blossom server says 404. A provider's
// server is asked whether it takes its uploads.
func checkBlobs(ctx context.Context, c *config.Config, server string) Finding {
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()

	const fix = "results need a Blossom server: name one under blobs, or run " + advice.RunRelay
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimRight(server, "/")+"/"+strings.Repeat("0", 64), nil)
	if err != nil {
		return Finding{"blob server", "fail", err.Error(), fix}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return Finding{"blob server", "fail", fmt.Sprintf("%s: %v", server, errors.Unwrap(err)), fix}
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusOK {
		return Finding{"blob server", "warn", fmt.Sprintf("%s answers %d where a Blossom server says 404", server, resp.StatusCode), fix}
	}

	key, ok := openKey(c)
	if !ok || !c.Sells() {
		return Finding{"blob server", "ok", server, ""}
	}
	blobs := relay.NewBlobClient(relay.BlobConfig{Servers: []string{server}, AllowLoopback: true, AllowHTTP: true, Timeout: relayTimeout})
	defer blobs.Close()
	if err := blobs.MayUpload(ctx, server, key); err != nil {
		return Finding{
			"blob server", "fail", fmt.Sprintf("%s takes no results of the provider's key: %v", server, err),
			"its operator names " + display.NPub(key.PublicKey()) + " under relay.owners or relay.uploaders; or name another server under blobs",
		}
	}
	return Finding{"blob server", "ok", server, ""}
}

func askRelay(ctx context.Context, ws string) (date time.Time, took time.Duration, err error) {
	u, err := url.Parse(ws)
	if err != nil {
		return date, 0, err
	}
	u.Scheme = "http" + strings.TrimPrefix(u.Scheme, "ws")
	ctx, cancel := context.WithTimeout(ctx, relayTimeout)
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return date, 0, err
	}
	req.Header.Set("Accept", "application/nostr+json")
	began := time.Now()
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return date, 0, errors.Unwrap(err)
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		return date, 0, fmt.Errorf("no relay there: HTTP %d", resp.StatusCode)
	}
	date, _ = http.ParseTime(resp.Header.Get("Date"))
	return date, time.Since(began), nil
}

// CheckWallets asks the wallets of both roles what the role needs of them.
func CheckWallets(ctx context.Context, c *config.Config, log *slog.Logger) []Finding {
	var all []Finding
	for _, w := range []struct {
		role string
		conf config.Wallet
	}{{"provider", c.Provider.Wallet}, {"buyer", c.Buyer.Wallet}} {
		all = append(all, checkWallet(ctx, c, w.role, w.conf, log))
	}
	return all
}

func checkWallet(ctx context.Context, c *config.Config, role string, conf config.Wallet, log *slog.Logger) Finding {
	name := role + " wallet"
	if conf.None() {
		return Finding{name, "warn", "none: only free jobs", "fine if this node does not act as " + role + "; else set " + role + ".wallet.backend"}
	}
	w, closeWallet, err := wallets.Open(ctx, c, conf, role, log)
	if err != nil {
		rights := advice.ShowRights
		if conf.Backend == config.BackendOnchain { // the macaroons for coins are others
			rights = advice.ShowChainRights
		}
		fix := "check " + role + ".wallet.lnd: the certificate is ~/.lnd/tls.cert, " + rights + " prints how to make the macaroon"
		if hint := (*advice.Error)(nil); conf.Backend != "lnd" && conf.Backend != config.BackendOnchain && errors.As(err, &hint) {
			fix = hint.Hint
		}
		return Finding{name, "fail", err.Error(), fix}
	}

	defer closeWallet()
	node, err := w.Node(ctx)
	if err != nil {
		return Finding{name, "fail", err.Error(), wallets.Hint(err, role, conf)}
	}
	if service, ok := w.(*nwc.Client); ok {
		if f := checkService(ctx, c, service, name, role, conf); f.State != "" {
			return f
		}
	}

	if node.Network == payments.Play {
		return Finding{name, "warn", "PLAY MONEY, worth nothing: " + node.PubKey, "set " + role + ".wallet.backend to lnd, nwc, cashu or onchain to use real money"}
	}
	if w, ok := w.(*cashu.Wallet); ok {
		return checkMint(ctx, w, name, node)
	}

	lacks := checkMacaroon(ctx, c, w, name, role, conf)
	if lacks.State == "fail" {
		return lacks
	}
	if w, ok := w.(*onchain.Wallet); ok {
		if f := checkCoins(ctx, w, name, role, conf); f.State != "" {
			return f
		}
	}

	if node, ok := w.(*lnd.Wallet); ok {
		if f := checkLiquidity(ctx, node, name, role, conf); f.State != "" {
			return f
		}
	}

	if lacks.State != "" {
		return lacks
	}
	if conf.Backend == config.BackendOnchain {
		return Finding{name, "ok", fmt.Sprintf("%s on %s: prepaid jobs only, none below %d sat", node.PubKey, node.Network, onchain.DustSats), ""}
	}

	return Finding{name, "ok", fmt.Sprintf("%s on %s", node.PubKey, node.Network), ""}
}

// checkService says what a wallet service lacks for what the role does with it.
func checkService(ctx context.Context, c *config.Config, w *nwc.Client, name, role string, conf config.Wallet) Finding {
	if role == "buyer" {
		info, err := w.Info(ctx)
		if err == nil && !info.CanPay() {
			return Finding{name, "fail", "the wallet does not offer pay_invoice and lookup_invoice", "allow them in the wallet's app, or use another wallet"}
		}
		return Finding{}
	}

	_, unpaid, less, err := wallets.Payable(ctx, w, c.Offers())
	switch {
	case err != nil:
		return Finding{name, "fail", err.Error(), wallets.Hint(err, role, conf)}
	case len(unpaid) > 0:
		schema := slices.Sorted(maps.Keys(unpaid))[0]
		return Finding{name, "fail", schema + " cannot be sold: " + unpaid[schema], wallets.UnpaidHint}
	case len(less) > 0:
		return Finding{name, "warn", strings.Join(less, "; "), wallets.UnpaidHint}
	}
	return Finding{}
}

// checkLiquidity warns of channels that cannot carry what the role needs.
func checkLiquidity(ctx context.Context, w *lnd.Wallet, name, role string, conf config.Wallet) Finding {
	receivable, err := w.Receivable(ctx)
	var balance payments.Balance
	if err == nil {
		balance, err = w.Balance(ctx)
	}

	switch {
	case err != nil:
		return Finding{name, "fail", err.Error(), wallets.Hint(err, role, conf)}
	case role == "provider" && receivable == 0:
		return Finding{name, "warn", "nobody can pay this lnd: it can receive 0 msats", "open a channel that others have money in"}
	case role == "buyer" && balance.SpendableMsats == 0:
		return Finding{name, "warn", "this lnd has 0 msats to spend", "open a channel, or wait until it is active"}
	}

	return Finding{}
}

// checkMint asks the mint for its keys, and says what the money is.
func checkMint(ctx context.Context, w *cashu.Wallet, name string, node payments.Node) Finding {
	if err := w.Check(ctx); err != nil {
		return Finding{name, "fail", err.Error(), "is the mint right, and does it run? lightwork knows mints with locked notes (NUT-14), proofs (NUT-12) and keys for sats"}
	}
	return Finding{name, "ok", fmt.Sprintf("%s on %s, which holds the bitcoin: keep no more there than you would lose; "+advice.ShowSeed+" shows the words to write down", node.PubKey, node.Network), ""}
}

// checkCoins warns of an lnd without coins to pay with.
func checkCoins(ctx context.Context, w *onchain.Wallet, name, role string, conf config.Wallet) Finding {
	balance, err := w.Balance(ctx)
	switch {
	case err != nil:
		return Finding{name, "fail", err.Error(), wallets.Hint(err, role, conf)}
	case role == "buyer" && balance.SpendableMsats == 0:
		return Finding{name, "warn", "this lnd has no confirmed coins to spend", "send coins to an address of lncli newaddress p2wkh"}
	}
	return Finding{}
}

// checkMacaroon says what the macaroon of a wallet lacks: for the role, or for the way
// back of a prepayment.
func checkMacaroon(ctx context.Context, c *config.Config, w wallets.Wallet, name, role string, conf config.Wallet) Finding {
	node, ok := w.(wallets.LndWallet)
	if !ok {
		return Finding{}
	}

	does, refunds := wallets.LndRoles(role, conf.Backend)
	if err := node.CheckPermissions(ctx, does); err != nil {
		return Finding{name, "fail", err.Error(), wallets.Hint(err, role, conf)}
	}
	if !seesRefunds(c, role) {
		return Finding{}
	}
	if err := node.CheckPermissions(ctx, refunds); err != nil {
		return Finding{name, "warn", "this lnd cannot see a refund through, so that what a provider owes is credit: " + err.Error(), wallets.BakeCommand(conf.Backend, "refunds")}
	}

	return Finding{}
}

// seesRefunds reports whether prepayments of the role may come back over its wallet.
func seesRefunds(c *config.Config, role string) bool {
	if role == "buyer" {
		return slices.Contains(c.Buyer.Modes, receipts.ModePrepay)
	}
	return !c.Provider.Refunds.CreditOnly && slices.ContainsFunc(c.Provider.Offers, func(o config.Offer) bool {
		return slices.Contains(o.Modes, receipts.ModePrepay)
	})
}
