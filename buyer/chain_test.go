package buyer_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/store"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

// bundleOnChain is one of the published vectors: a job that was paid by a
// transaction. Its files are those of the base where it has none of its own.
func bundleOnChain(t *testing.T) (files map[string]string, pins receipts.Pins) {
	t.Helper()
	files = map[string]string{}
	for _, name := range []string{"valid", "onchain"} {
		text, err := os.ReadFile("../receipts/testdata/vectors/" + name + ".json")
		check(t, err)
		var vector struct {
			Files map[string]string
			Pins  struct{ Provider, Buyer, Payee, Network string }
		}
		check(t, json.Unmarshal(text, &vector))
		for name, content := range vector.Files {
			files[name] = content
		}
		pins = receipts.Pins{
			Provider: vector.Pins.Provider, Buyer: vector.Pins.Buyer, Payee: vector.Pins.Payee,
			Network: payments.Network(vector.Pins.Network),
		}
	}
	return files, pins
}

// signedAgain signs what the vector's provider sent as one would send it who
// uploads blobs: the result names them, and the receipt that result.
func signedAgain(t *testing.T, files map[string]string) (result, receipt nostr.Event, blobs [][]byte) {
	t.Helper()
	check(t, json.Unmarshal([]byte(files[receipts.FileResultEvent]), &result))
	for name, content := range files {
		role := map[string]string{receipts.FileReplay: "replay", receipts.FilePolicy: "policy", "artifacts": "artifact"}[strings.Split(name, "/")[0]]
		if role != "" {
			blobs = append(blobs, []byte(content))
			result.Tags = append(result.Tags, nostr.Tag{"blob", role, hashing.Bytes([]byte(content)).String(), strconv.Itoa(len(content)), "text/plain"})
		}
	}
	seed := sha256.Sum256([]byte("lightwork test key provider")) // of all vectors
	check(t, result.Sign(hex.EncodeToString(seed[:])))
	made, err := receipts.ParseReceipt([]byte(files[receipts.FileReceipt]))
	check(t, err)
	made.ResultEventID = result.ID
	unsigned, err := receipts.ReceiptEvent(made, int64(result.CreatedAt)+2)
	check(t, err)
	receipt = nostr.Event{Kind: unsigned.Kind, CreatedAt: nostr.Timestamp(unsigned.CreatedAt), Content: unsigned.Content}
	for _, tag := range unsigned.Tags {
		receipt.Tags = append(receipt.Tags, tag)
	}
	check(t, receipt.Sign(hex.EncodeToString(seed[:])))
	return result, receipt, blobs
}

// bought stores what a purchase of that bundle has before its receipt: a payment
// under way, and a result.
func bought(t *testing.T, store buyer.Store, files map[string]string, pins receipts.Pins) (id string, receipt nostr.Event) {
	t.Helper()
	result, receipt, blobs := signedAgain(t, files)
	rec, err := receipts.ParseReceipt([]byte(receipt.Content))
	check(t, err)
	hash, err := payments.ParseHash(rec.PaymentHash)
	check(t, err)
	check(t, store.AddPurchase(t.Context(), buyer.Purchase{
		RequestID: rec.RequestEventID, Provider: pins.Provider, SchemaID: rec.SchemaID, JobHash: rec.JobHash,
		Request: []byte(files[receipts.FileRequest]), MaxMsats: 2 * rec.AmountMsats, PayeeNode: pins.Payee, AddedAt: time.Now(),
	}))
	check(t, store.Reserve(t.Context(), rec.RequestEventID, buyer.Charge{
		Attempt: &buyer.Attempt{
			PaymentHash: hash, Purpose: string(receipts.PurposeResult), AmountMsats: rec.AmountMsats, ReservedAt: time.Now(),
		},
		Quote: []byte(files[receipts.FileQuote]), BOLT11: rec.BOLT11, Acceptance: []byte(files[receipts.FileAcceptance]),
	}, buyer.Limits{}))
	event, err := result.MarshalJSON()
	check(t, err)
	check(t, store.SetResult(t.Context(), rec.RequestEventID, event, []byte(files[receipts.FileResult]), blobs, false))
	return rec.RequestEventID, receipt
}

// awayOnChain is a wallet that is asked about the payment by two: by whoever sees
// it through, who hears that it is confirmed, but not before the other, who
// judges the receipt, has heard that the wallet is away.
type awayOnChain struct {
	*cheat
	network payments.Network
	pay     payments.Payment
	receipt nostr.Event
	asked   chan struct{} // gets one for each question
	away    chan struct{} // closed by the second
}

func (w *awayOnChain) Node(context.Context) (payments.Node, error) {
	return payments.Node{PubKey: strings.Repeat("02", 33), Network: w.network}, nil
}

func (w *awayOnChain) LookupPayment(ctx context.Context, _ payments.Hash) (payments.Payment, error) {
	select {
	case w.asked <- struct{}{}: // the first
	default:
		close(w.away) // a third one would panic: nothing more is to be asked
		return payments.Payment{}, errors.New("the wallet is away")
	}
	select {
	case w.out <- w.receipt:
	case <-ctx.Done():
		return payments.Payment{}, ctx.Err()
	}
	select {
	case <-w.away:
		return w.pay, nil
	case <-ctx.Done():
		return payments.Payment{}, ctx.Err()
	}
}

func silent(*cheat, nostr.Event) []nostr.Event { return nil }

// named signs nothing: all that this buyer sends was signed before.
type named struct {
	*relay.Key
	key string
}

func (n named) PublicKey() string { return n.key }

// TestReceiptWaitsForTheWallet: a receipt of a payment on the chain that comes
// while the wallet is away is neither believed nor refused; it is judged by what
// the wallet says once it is back.
func TestReceiptWaitsForTheWallet(t *testing.T) {
	files, pins := bundleOnChain(t)
	receipt, err := receipts.ParseReceipt([]byte(files[receipts.FileReceipt]))
	check(t, err)
	for name, tt := range map[string]struct {
		outpoints string
		taken     bool
	}{
		"our transaction":     {receipt.PaymentProof.Value, true},
		"another transaction": {strings.Repeat("ef", 32) + ":0", false},
	} {
		t.Run(name, func(t *testing.T) {
			k, err := store.Open(t.Context(), t.TempDir(), store.Options{})
			check(t, err)
			t.Cleanup(func() { k.Close() })
			store := k.Purchases()
			id, signed := bought(t, store, files, pins)
			hash, err := payments.ParseHash(receipt.PaymentHash)
			check(t, err)
			w := &awayOnChain{
				cheat: &cheat{t: t, out: make(chan nostr.Event), answer: silent}, network: pins.Network, receipt: signed,
				pay:   payments.Payment{Hash: hash, State: payments.PaymentSucceeded, AmountMsats: receipt.AmountMsats, Outpoints: tt.outpoints},
				asked: make(chan struct{}, 1), away: make(chan struct{}),
			}
			client, err := buyer.New(buyer.Config{Signer: named{key: pins.Buyer}, Store: store, Wallet: w, Market: w})
			check(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var did []string // with the receipt
			p, err := client.Follow(ctx, id, func(now buyer.Progress) {
				if now.What == "refused" || now.What == "receipt" || now.What == "confirmed" {
					did = append(did, now.What)
				}
				if now.What == "refused" {
					cancel() // or it waits for another
				}
			})
			last := map[bool]string{true: "receipt", false: "refused"}[tt.taken]
			if !slices.Equal(did, []string{"confirmed", last}) || (p.State == buyer.StateDone && p.ReceiptID == receipt.ReceiptID) != tt.taken {
				t.Errorf("purchase %s (%s), receipt %q, %v; what was done: %q", p.State, p.Reason, p.ReceiptID, err, did)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
