package nwc

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/port"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// sent is a wallet's own invoice, as a service would tell of it.
func sent(t *testing.T, inv payments.Invoice) transaction {
	t.Helper()
	tx, err := incomingTransaction(inv)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

// TestLookups: what a service says of an invoice, and what is believed.
func TestLookups(t *testing.T) {
	url := startRelay(t)
	l := openLedger(t, playnet.Config{})
	wallet, stranger := openWallet(t, l, "wallet"), openWallet(t, l, "stranger")
	node, err := wallet.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	made := newBill(t, wallet) // for its time
	created := sent(t, made.Invoice).CreatedAt
	cases := map[string]struct {
		change func(x *transaction)
		state  payments.InvoiceState // "": an error
		check  func(inv payments.Invoice) bool
	}{
		"pending":         {func(*transaction) {}, payments.InvoiceOpen, func(i payments.Invoice) bool { return i.PaidMsats == 0 && !i.Final }},
		"no state":        {func(x *transaction) { x.State = "" }, payments.InvoiceOpen, nil},
		"preimage only":   {func(x *transaction) { x.State, x.Preimage = "", strings.Repeat("1", 64) }, payments.InvoiceOpen, nil},
		"settled by time": {func(x *transaction) { x.State, x.SettledAt = "", now }, payments.InvoiceSettled, func(i payments.Invoice) bool { return i.SettledAt.Unix() == now && i.Final && i.PaidMsats == 20_000 }},
		"settled, unsure": {func(x *transaction) { x.State, x.SettledAt, x.Unsure = stateSettled, now, true }, payments.InvoiceSettled, func(i payments.Invoice) bool { return !i.Final }},
		"lost":            {func(x *transaction) { x.State, x.LostMsats = stateExpired, 20_000 }, payments.InvoiceCanceled, func(i payments.Invoice) bool { return i.LostMsats == 20_000 && i.PaidMsats == 0 }},
		"lost in part":    {func(x *transaction) { x.State, x.LostMsats = stateSettled, 15_000 }, payments.InvoiceSettled, func(i payments.Invoice) bool { return i.LostMsats == 15_000 && i.PaidMsats == 5_000 && i.Final }},
		"expired":         {func(x *transaction) { x.State = stateExpired }, payments.InvoiceCanceled, nil},
		"failed":          {func(x *transaction) { x.State = stateFailed }, payments.InvoiceCanceled, nil},
		"long expired":    {func(x *transaction) { x.ExpiresAt = now - 3600 }, payments.InvoiceCanceled, nil},
		"just expired":    {func(x *transaction) { x.ExpiresAt = now - 1 }, payments.InvoiceOpen, nil},
		"held, no deadline": {func(x *transaction) { x.State, x.CreatedAt = stateAccepted, created }, payments.InvoiceHeld, func(i payments.Invoice) bool {
			return i.SettleBy.Unix() == created+3600 && i.PaidMsats == 20_000
		}},
		"held to a block": {func(x *transaction) { x.State, x.SettleDeadline = stateAccepted, 100+marginBlocks+12 }, payments.InvoiceHeld, func(i payments.Invoice) bool {
			in := time.Until(i.SettleBy)
			return in > 50*time.Minute && in <= time.Hour
		}},
		"held past":        {func(x *transaction) { x.State, x.SettleDeadline = stateAccepted, 50 }, payments.InvoiceHeld, func(i payments.Invoice) bool { return !i.SettleBy.After(time.Now()) }},
		"held to a time":   {func(x *transaction) { x.State, x.SettleBy = stateAccepted, now+77 }, payments.InvoiceHeld, func(i payments.Invoice) bool { return i.SettleBy.Unix() == now+77 }},
		"hash in capitals": {func(x *transaction) { x.PaymentHash = strings.ToUpper(x.PaymentHash) }, payments.InvoiceOpen, nil},
		"no invoice":       {func(x *transaction) { x.Invoice = "" }, payments.InvoiceOpen, nil},

		"unknown state":       {func(x *transaction) { x.State = "perhaps" }, "", nil},
		"outgoing":            {func(x *transaction) { x.Type = typeOutgoing }, "", nil},
		"no type":             {func(x *transaction) { x.Type = "" }, "", nil},
		"another hash":        {func(x *transaction) { x.PaymentHash = strings.Repeat("1", 64) }, "", nil},
		"no hash":             {func(x *transaction) { x.PaymentHash = "" }, "", nil},
		"another amount":      {func(x *transaction) { x.Amount++ }, "", nil},
		"negative amount":     {func(x *transaction) { x.Amount = -1; x.Invoice = "" }, "", nil},
		"lost below nothing":  {func(x *transaction) { x.LostMsats = -1 }, "", nil},
		"time out of range":   {func(x *transaction) { x.SettledAt = 1 << 60 }, "", nil},
		"a stranger's":        {func(x *transaction) { x.Invoice = newBill(t, stranger).BOLT11 }, "", nil},
		"another of its own":  {func(x *transaction) { x.Invoice = newBill(t, wallet).BOLT11 }, "", nil},
		"no invoice but text": {func(x *transaction) { x.Invoice = "lnbc1" }, "", nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBill(t, wallet)
			x := sent(t, b.Invoice)
			c.change(&x)
			f := startFake(t, url, node, func(f *fake, ev nostr.Event, r request) []nostr.Event { return f.result(ev, r.Method, x) })
			client := startClient(t, Config{Connection: f.conn, CallTimeout: patience})
			inv, err := client.LookupInvoice(t.Context(), b.PaymentHash)
			switch {
			case c.state == "":
				if err == nil {
					t.Errorf("believed: %+v", inv)
				}
			case err != nil || inv.State != c.state || inv.PaymentHash != b.PaymentHash || inv.AmountMsats != 20_000:
				t.Errorf("invoice %+v, %v", inv, err)
			case c.check != nil && !c.check(inv):
				t.Errorf("invoice %+v", inv)
			}
		})
	}
}

// TestEncryption: NIP-44 if offered, NIP-04 if nothing else is, and no other.
func TestEncryption(t *testing.T) {
	url := startRelay(t)
	node := payments.Node{PubKey: "02" + strings.Repeat("11", 32), Network: payments.Regtest}
	none := func(f *fake, ev nostr.Event, r request) []nostr.Event {
		return f.refuse(ev, r.Method, CodeNotImplemented)
	}
	for name, c := range map[string]struct {
		tag  []string
		want Scheme
	}{
		"both":        {[]string{"nip04 nip44_v2"}, NIP44},
		"nip44":       {[]string{"nip44_v2"}, NIP44},
		"nip04":       {[]string{"nip04"}, NIP04},
		"no value":    {[]string{}, NIP44}, // the helper's own info event
		"new and old": {[]string{"nip99 nip04"}, NIP04},
		"new":         {[]string{"nip99"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t, url, node, none, c.tag...)
			if c.want != "" {
				f.scheme = c.want
			}
			client := startClient(t, Config{Connection: f.conn})
			got, err := client.Node(t.Context())
			if c.want == "" {
				if !errors.Is(err, payments.ErrUnsupported) {
					t.Errorf("node %+v, %v", got, err)
				}
				return
			}
			want := node
			want.Account = f.conn.Secret.PublicKey()
			if err != nil || got != want {
				t.Errorf("node %+v, %v", got, err)
			}
			if _, err := client.Balance(t.Context()); !errors.Is(err, payments.ErrUnsupported) {
				t.Errorf("balance: %v", err)
			}
		})
	}
}

// TestOldInfoEvent: a relay cannot take a capability away by an old event.
func TestOldInfoEvent(t *testing.T) {
	_, conn := newApp(t, "ws://127.0.0.1:1")
	c, err := Open(Config{Connection: conn})
	if err != nil {
		t.Fatal(err)
	}
	ev := func(at nostr.Timestamp, scheme string) *nostr.Event {
		return &nostr.Event{Kind: kindInfo, CreatedAt: at, Content: "pay_invoice", Tags: nostr.Tags{{"encryption", scheme}}}
	}
	for _, e := range []*nostr.Event{ev(100, "nip44_v2 nip04"), ev(99, "nip04"), ev(100, "nip04")} {
		c.inform(e)
	}
	if c.info.Encryption != NIP44 {
		t.Errorf("info %+v", c.info)
	}
	if c.inform(ev(101, "nip04")); c.info.Encryption != NIP04 {
		t.Errorf("info %+v", c.info)
	}
}

// TestDeadRelay: nothing can be asked, so nothing was sent, and that is said.
func TestDeadRelay(t *testing.T) {
	url := "ws://" + port.Reserve(t)
	_, conn := newApp(t, url)
	client := startClient(t, Config{Connection: conn, CallTimeout: 300 * time.Millisecond})
	b := newBill(t, openWallet(t, openLedger(t, playnet.Config{}), "payee"))
	for name, call := range map[string]func() error{
		"pay":    func() error { return client.SendPayment(t.Context(), b.pay()) },
		"lookup": func() error { _, err := client.LookupPayment(t.Context(), b.PaymentHash); return err },
		"create": func() error {
			_, err := client.CreateInvoice(t.Context(), payments.NewInvoice{Hold: true, PaymentHash: b.PaymentHash, AmountMsats: 1, Expiry: time.Hour})
			return err
		},
		"settle": func() error { return client.SettleInvoice(t.Context(), b.preimage) },
	} {
		if err := call(); !errors.Is(err, payments.ErrWalletUnavailable) || errors.Is(err, payments.ErrUnknownOutcome) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestRelayDiesWithThePayment: the request is perhaps with the service.
func TestRelayDiesWithThePayment(t *testing.T) {
	url := startRelay(t)
	l := openLedger(t, playnet.Config{})
	b := newBill(t, openWallet(t, l, "payee"))
	node, err := openWallet(t, l, "node").Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	f := startFake(t, url, node, func(f *fake, ev nostr.Event, r request) []nostr.Event {
		if r.Method == PayInvoice {
			asked <- struct{}{}
			return nil
		}
		return f.refuse(ev, r.Method, CodeNotFound)
	})
	client, err := Open(Config{Connection: f.conn, Log: logger(t)})
	if err != nil {
		t.Fatal(err)
	}
	stop := run(t, client.Serve)
	paying := make(chan error, 1)
	go func() { paying <- client.SendPayment(context.Background(), b.pay()) }()
	<-asked
	stop()
	if err := <-paying; !errors.Is(err, payments.ErrUnknownOutcome) {
		t.Errorf("error %v", err)
	}
	if _, err := client.TrackPayment(t.Context(), b.PaymentHash); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("track after the end: %v", err)
	}
}
