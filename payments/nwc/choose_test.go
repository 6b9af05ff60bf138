package nwc

import (
	"crypto/rand"
	"errors"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/playnet"
)

// choosing is a wallet service that makes its own preimages, as most do.
type choosing struct {
	t       *testing.T
	wallet  *playnet.Wallet
	made    []transaction
	silent  bool // it makes an invoice, and its answer is lost
	refuses Code // to list its transactions
	others  int  // further invoices in the list
}

func (s *choosing) answer(f *fake, ev nostr.Event, r request) []nostr.Event {
	switch r.Method {
	case MakeInvoice:
		var p invoiceParams
		if err := decodeParams(r.Params, &p); err != nil || p.Preimage != "" || p.PaymentHash != "" {
			s.t.Errorf("asked for %+v, %v", p, err)
		}
		made := s.invoice(p)
		s.made = append(s.made, made)
		if s.silent {
			return nil
		}
		return f.result(ev, MakeInvoice, made)
	case ListTransactions:
		if s.refuses != "" {
			return f.refuse(ev, ListTransactions, s.refuses)
		}
		var p listParams
		if err := decodeParams(r.Params, &p); err != nil || !p.Unpaid || p.Limit > maxPage {
			s.t.Errorf("asked for %+v, %v", p, err)
		}
		all := make([]transaction, s.others)
		for i := range all {
			all[i] = transaction{Type: typeIncoming, PaymentHash: payments.Hash{1}.String(), Invoice: "lnbc1"}
		}
		all = append(all, s.made...)
		from := min(p.Offset, len(all))
		return f.result(ev, ListTransactions, listResult{Transactions: all[from:min(from+p.Limit, len(all))]})
	}
	return f.refuse(ev, r.Method, CodeNotImplemented)
}

func (s *choosing) invoice(p invoiceParams) transaction {
	description, err := parseDigest(p.DescriptionHash)
	if err != nil {
		s.t.Error(err)
	}
	var secret payments.Preimage
	rand.Read(secret[:]) // never fails
	inv, err := s.wallet.CreateInvoice(s.t.Context(), payments.NewInvoice{
		Preimage: secret, AmountMsats: p.Amount, DescriptionHash: description, Expiry: time.Duration(p.Expiry) * time.Second,
	})
	if err != nil {
		s.t.Error(err)
	}
	return transaction{Type: typeIncoming, State: statePending, Invoice: inv.BOLT11, PaymentHash: inv.PaymentHash.String(), Amount: p.Amount}
}

func served(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	run(t, c.Serve)
	return c
}

// TestMakeInvoice: an invoice whose answer was lost is found among what the wallet
// lists, wherever it stands; one for another description hash is not taken for it; and
// where the wallet lists nothing to us another is made.
func TestMakeInvoice(t *testing.T) {
	in := payments.NewInvoice{AmountMsats: 5000, DescriptionHash: hashing.Bytes([]byte("quote")), Expiry: time.Hour}
	for name, tt := range map[string]struct {
		lost    bool
		refuses Code
		others  int
		made    int
	}{
		"first time":             {made: 1},
		"answer lost":            {lost: true, made: 1},
		"behind others":          {lost: true, others: 2*maxPage + 3, made: 1},
		"behind too many others": {lost: true, others: listedPages * maxPage, made: 2},
		"not listed to us":       {lost: true, refuses: CodeRestricted, made: 2},
	} {
		t.Run(name, func(t *testing.T) {
			url := startRelay(t)
			s := &choosing{t: t, wallet: openWallet(t, openLedger(t, playnet.Config{}), "w"), refuses: tt.refuses, others: tt.others, silent: tt.lost}
			node, err := s.wallet.Node(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			f := startFake(t, url, node, s.answer)
			other := in
			other.DescriptionHash = hashing.Bytes([]byte("another quote"))
			if tt.lost {
				c := served(t, Config{Connection: f.conn, CallTimeout: time.Second})
				if _, err := c.MakeInvoice(t.Context(), in, time.Now()); !errors.Is(err, payments.ErrWalletUnavailable) {
					t.Fatalf("no answer: %v", err)
				}
				s.silent = false
			}
			c := served(t, Config{Connection: f.conn})
			inv, err := c.MakeInvoice(t.Context(), in, time.Now())
			if err != nil || len(s.made) != tt.made || inv.BOLT11 != s.made[tt.made-1].Invoice {
				t.Errorf("invoice %+v, %v; %d made, want %d", inv, err, len(s.made), tt.made)
			}
			if next, err := c.MakeInvoice(t.Context(), other, time.Now()); err != nil || next.PaymentHash == inv.PaymentHash {
				t.Errorf("invoice of another quote %+v, %v", next, err)
			}
		})
	}
}
