package onchain

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"
	"github.com/btcsuite/btcd/chaincfg/chainhash"
	"github.com/btcsuite/btcd/wire"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/payments/lnd"
)

// fakeChain is an lnd with one chain that all its wallets share. A test that
// sets down makes the next call of that name fail, after its effect.
type fakeChain struct {
	key *btcec.PrivateKey
	*shared

	down   string
	looked int    // how often Received was asked
	reuse  string // what NewAddress gives, if set
	leases map[[32]byte]int
	signed int
}

// shared is the chain itself.
type shared struct {
	mu      sync.Mutex
	height  int64
	outputs []*lnd.ChainOutput
	byAddr  map[string]bolt11.Fallback
	txs     map[string]*chainTx
}

type chainTx struct {
	raw   []byte
	at    int64 // block; 0 while in none
	label string
	times int // published
}

func newFake(t *testing.T) *fakeChain {
	t.Helper()
	return &fakeChain{key: newKey(t), leases: map[[32]byte]int{}, shared: &shared{height: 500, byAddr: map[string]bolt11.Fallback{}, txs: map[string]*chainTx{}}}
}

func (f *fakeChain) other(t *testing.T) *fakeChain {
	return &fakeChain{key: newKey(t), leases: map[[32]byte]int{}, shared: f.shared}
}

func newKey(t *testing.T) *btcec.PrivateKey {
	t.Helper()
	key, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func (f *fakeChain) broken(call string) error {
	if f.down != call {
		return nil
	}
	f.down = ""
	return fmt.Errorf("%s: %w", call, payments.ErrWalletUnavailable)
}

func (f *fakeChain) Node(context.Context) (payments.Node, error) {
	return payments.Node{PubKey: hex.EncodeToString(f.key.PubKey().SerializeCompressed()), Network: payments.Simnet}, f.broken("Node")
}

func (f *fakeChain) CheckPermissions(_ context.Context, role lnd.Role) error {
	return f.broken(string(role))
}

func (f *fakeChain) NewAddress(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reuse != "" {
		return f.reuse, nil
	}
	to := bolt11.Fallback{Program: make([]byte, 20)}
	rand.Read(to.Program)
	address, err := to.Address(payments.Simnet)
	f.byAddr[address] = to
	if err == nil {
		err = f.broken("NewAddress")
	}
	return address, err
}

func (f *fakeChain) SignRequest(_ context.Context, want payments.NewInvoice, address string) (string, error) {
	inv := &bolt11.Invoice{
		Network: payments.Simnet, AmountMsats: want.AmountMsats, CreatedAt: time.Unix(1_700_000_000, 0), Expiry: 50 * 365 * 24 * time.Hour,
		PaymentHash: want.PaymentHash, DescriptionHash: &want.DescriptionHash, Fallbacks: []bolt11.Fallback{f.byAddr[address]},
		PaymentSecret: [32]byte{1},
	}
	text, err := bolt11.Encode(inv, func(hash [32]byte) ([65]byte, error) {
		return [65]byte(ecdsa.SignCompact(f.key, hash[:], true)), nil
	})
	if err == nil {
		err = f.broken("SignRequest")
	}
	return text, err
}

func (f *fakeChain) Received(context.Context, int64) ([]lnd.ChainOutput, int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked++
	var list []lnd.ChainOutput
	for _, o := range f.outputs {
		out := *o
		out.Confirmations = f.confirmations(f.txs[o.TxID])
		list = append(list, out)
	}
	return list, f.height, f.broken("Received")
}

func (s *shared) confirmations(tx *chainTx) int64 {
	if tx == nil || tx.at == 0 {
		return 0
	}
	return max(0, s.height-tx.at+1)
}

func (f *fakeChain) Ready(context.Context) error { return f.broken("Ready") }

func (f *fakeChain) FeeRate(context.Context, int) (int64, error) { return 10, f.broken("FeeRate") }

// fakeFee is what a transaction costs, in satoshi.
const fakeFee = 1410

func (f *fakeChain) SignSend(_ context.Context, s lnd.ChainSend) ([]byte, int64, error) {
	f.leases[s.Lease]++
	f.signed++
	tx := wire.NewMsgTx(2)
	var input chainhash.Hash
	rand.Read(input[:])
	tx.AddTxIn(wire.NewTxIn(wire.NewOutPoint(&input, 0), nil, nil))
	script, err := f.byAddr[s.Address].Script()
	if err != nil {
		return nil, 0, err
	}
	tx.AddTxOut(wire.NewTxOut(77, nil)) // change
	tx.AddTxOut(wire.NewTxOut(s.Sats, script))
	var raw bytes.Buffer
	if err := tx.Serialize(&raw); err != nil {
		return nil, 0, err
	}
	return raw.Bytes(), fakeFee, f.broken("SignSend")
}

func (f *fakeChain) Release(_ context.Context, lease [32]byte) error {
	delete(f.leases, lease)
	return f.broken("Release")
}

func (f *fakeChain) Publish(_ context.Context, raw []byte, label string) error {
	if err := f.broken("Publish, lost before"); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var tx wire.MsgTx
	if err := tx.Deserialize(bytes.NewReader(raw)); err != nil {
		return err
	}
	id := tx.TxHash().String()
	if f.txs[id] == nil {
		f.txs[id] = &chainTx{raw: raw, label: label}
		for i, out := range tx.TxOut {
			for address, to := range f.byAddr {
				if script, _ := to.Script(); bytes.Equal(script, out.PkScript) {
					f.outputs = append(f.outputs, &lnd.ChainOutput{TxID: id, Index: uint32(i), Address: address, Sats: out.Value})
				}
			}
		}
	}
	f.txs[id].times++
	return f.broken("Publish")
}

func (f *fakeChain) Transaction(_ context.Context, txid string) (lnd.ChainTx, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	tx := f.txs[txid]
	if tx == nil {
		return lnd.ChainTx{}, payments.ErrNotFound
	}
	return lnd.ChainTx{Confirmations: f.confirmations(tx), Label: tx.label, FeeSats: fakeFee}, f.broken("Transaction")
}

func (f *fakeChain) Published(_ context.Context, address string, sats int64, since time.Time) (paid []lnd.ChainPayment, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if since.IsZero() {
		return nil, errors.New("asked for all that was ever paid")
	}
	for _, o := range f.outputs {
		if o.Address == address && o.Sats == sats {
			paid = append(paid, lnd.ChainPayment{Raw: f.txs[o.TxID].raw, FeeSats: fakeFee})
		}
	}
	return paid, f.broken("Published")
}

func (f *fakeChain) ChainBalance(context.Context) (int64, int64, error) { return 1_000_000, 5, nil }

// mine puts what waits into the first of so many blocks.
func (s *shared) mine(blocks int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, tx := range s.txs {
		if tx.at == 0 {
			tx.at = s.height + 1
		}
	}
	s.height += blocks
}

// reorganise takes blocks off the chain. What was in them waits again, or is
// gone for good.
func (s *shared) reorganise(blocks int64, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.height -= blocks
	for id, tx := range s.txs {
		if tx.at <= s.height {
			continue
		}
		tx.at = 0
		if gone {
			delete(s.txs, id)
			for i := 0; i < len(s.outputs); i++ {
				if s.outputs[i].TxID == id {
					s.outputs = append(s.outputs[:i], s.outputs[i+1:]...)
					i--
				}
			}
		}
	}
}

// pay brings satoshi to the address of a text, from outside.
func (f *fakeChain) pay(t *testing.T, text string, sats int64) {
	t.Helper()
	inv, err := bolt11.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	address, err := inv.ChainAddress()
	if err != nil {
		t.Fatal(err)
	}
	raw, _, err := f.SignSend(t.Context(), lnd.ChainSend{Address: address, Sats: sats})
	if err == nil {
		err = f.Publish(t.Context(), raw, "")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// at opens a wallet on the chain with its book at path.
func at(t *testing.T, chain Chain, path string, log *slog.Logger) (*Wallet, func()) {
	t.Helper()
	book, err := OpenBook(t.Context(), path, log)
	if err != nil {
		t.Fatal(err)
	}
	closed := sync.OnceFunc(func() { _ = book.Close() })
	t.Cleanup(closed)
	w, err := New(Config{Chain: chain, Book: book, Confirmations: 2, PollEvery: time.Millisecond, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	return w, closed
}

func wallet(t *testing.T, chain Chain) *Wallet {
	w, _ := at(t, chain, filepath.Join(t.TempDir(), "book.db"), nil)
	return w
}

// ask is a request for 20,000 sat.
func ask() payments.NewInvoice {
	var preimage payments.Preimage
	rand.Read(preimage[:])
	return payments.NewInvoice{Preimage: preimage, AmountMsats: 20_000_000, DescriptionHash: hashing.Bytes(preimage[:]), Expiry: time.Hour}
}
