package lnd

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/btcsuite/btcd/btcutil/psbt"
	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/walletrpc"
	"google.golang.org/grpc"

	"github.com/lightwork-market/lightwork/payments"
)

// ChainOutput is an output of a transaction that lnd's wallet knows.
type ChainOutput struct {
	TxID          string // 64 hex digits, as explorers show it
	Index         uint32
	Address       string
	Sats          int64
	Confirmations int64 // 0 while in no block
}

// ChainTx is a transaction of lnd's wallet.
type ChainTx struct {
	Confirmations int64
	FeeSats       int64
	Label         string
}

// NewAddress gives an address of the wallet that nobody was told before.
func (w *Wallet) NewAddress(ctx context.Context) (string, error) {
	if _, err := w.knownNode(ctx); err != nil {
		return "", err
	}
	reply, err := call(ctx, w, rpcNewAddress, w.ln.NewAddress, &lnrpc.NewAddressRequest{Type: lnrpc.AddressType_WITNESS_PUBKEY_HASH})
	return reply.GetAddress(), err
}

// SignRequest makes a BOLT 11 invoice that names address as its fallback, and
// cancels it at once: the node's signature then stands under address, amount and
// description hash, and no payment over Lightning is accepted for it. It may be
// repeated; the invoice that exists is returned if it says the same.
func (w *Wallet) SignRequest(ctx context.Context, want payments.NewInvoice, address string) (string, error) {
	hash, err := want.Hash()
	if err != nil {
		return "", err
	}
	node, err := w.knownNode(ctx)
	if err != nil {
		return "", err
	}
	reply, err := call(ctx, w, rpcAddHoldInvoice, w.invoices.AddHoldInvoice, &invoicesrpc.AddHoldInvoiceRequest{
		Hash: hash[:], ValueMsat: want.AmountMsats, DescriptionHash: want.DescriptionHash[:],
		Expiry: int64(want.Expiry / time.Second), FallbackAddr: address,
	})
	request := reply.GetPaymentRequest()
	if err != nil && isAnswer(err) { // a duplicate: its reply was lost
		raw, lookupErr := w.lookup(ctx, hash)
		if errors.Is(lookupErr, payments.ErrNotFound) {
			return "", err
		}
		request, err = raw.GetPaymentRequest(), lookupErr
	}

	if err != nil {
		return "", err
	}
	if err := checkInvoice(request, hash, want, node); err != nil {
		return "", err
	}

	return request, w.CancelInvoice(ctx, hash)
}

// Received lists the outputs to our addresses in transactions since the height,
// those in no block among them, and the height of the chain.
func (w *Wallet) Received(ctx context.Context, since int64) (outputs []ChainOutput, height int64, err error) {
	info, err := call(ctx, w, rpcGetInfo, w.ln.GetInfo, &lnrpc.GetInfoRequest{})
	if err != nil {
		return nil, 0, err
	}
	reply, err := call(ctx, w, rpcGetTransactions, w.ln.GetTransactions, &lnrpc.GetTransactionsRequest{
		StartHeight: int32(max(0, since)), EndHeight: -1,
	})

	for _, tx := range reply.GetTransactions() {
		for _, o := range tx.OutputDetails {
			if !o.IsOurAddress {
				continue
			}
			outputs = append(outputs, ChainOutput{
				TxID: tx.TxHash, Index: uint32(o.OutputIndex), Address: o.Address, Sats: o.Amount,
				Confirmations: int64(max(0, tx.NumConfirmations)),
			})
		}
	}

	return outputs, int64(info.BlockHeight), err
}

// FeeRate estimates what a transaction pays to be in one of the next blocks, in
// satoshi a virtual byte, at least 1.
func (w *Wallet) FeeRate(ctx context.Context, blocks int) (satPerVByte int64, err error) {
	reply, err := call(ctx, w, rpcEstimateFee, w.wallet.EstimateFee, &walletrpc.EstimateFeeRequest{ConfTarget: int32(blocks)})
	return max(1, (reply.GetSatPerKw()*4+999)/1000), err
}

// ChainSend is a transaction to be made.
type ChainSend struct {
	Address     string
	Sats        int64
	SatPerVByte int64
	// Lease names the inputs' reservation, and For is how long it lasts.
	Lease [32]byte
	For   time.Duration
}

// SignSend chooses inputs, leases them, and signs a transaction. Nothing is
// published: whoever does not publish it must call Release.
func (w *Wallet) SignSend(ctx context.Context, s ChainSend) (raw []byte, feeSats int64, err error) {
	if _, err := w.knownNode(ctx); err != nil {
		return nil, 0, err
	}
	funded, err := call(ctx, w, rpcFundPsbt, w.wallet.FundPsbt, &walletrpc.FundPsbtRequest{
		Template: &walletrpc.FundPsbtRequest_Raw{Raw: &walletrpc.TxTemplate{Outputs: map[string]uint64{s.Address: uint64(s.Sats)}}},
		Fees:     &walletrpc.FundPsbtRequest_SatPerVbyte{SatPerVbyte: uint64(s.SatPerVByte)},
		MinConfs: 1, CustomLockId: s.Lease[:], LockExpirationSeconds: uint64(s.For / time.Second),
	})
	if err != nil {
		return nil, 0, err
	}
	packet, err := psbt.NewFromRawBytes(bytes.NewReader(funded.FundedPsbt), false)
	if err != nil {
		return nil, 0, fmt.Errorf("%w: lnd's transaction: %w", payments.ErrUnsupported, err)
	}
	fee, err := packet.GetTxFee()
	if err != nil {
		return nil, 0, fmt.Errorf("%w: fee of lnd's transaction: %w", payments.ErrUnsupported, err)
	}
	final, err := call(ctx, w, rpcFinalizePsbt, w.wallet.FinalizePsbt, &walletrpc.FinalizePsbtRequest{FundedPsbt: funded.FundedPsbt})
	return final.GetRawFinalTx(), int64(fee), err
}

// mostHistory is the longest list of transactions that is read from lnd, in bytes: a
// wallet of some hundred thousand.
const mostHistory = 256 << 20

// ChainPayment is a transaction in which lnd's wallet paid somebody.
type ChainPayment struct {
	Raw     []byte
	FeeSats int64
}

// clockSlack is how far the time of a block may be from the one of its transactions.
const clockSlack = 2 * time.Hour

// Ready is nil once lnd has read the whole chain: before, it answers, and knows neither
// all that it was paid nor all that it has spent.
func (w *Wallet) Ready(ctx context.Context) error {
	info, err := call(ctx, w, rpcGetInfo, w.ln.GetInfo, &lnrpc.GetInfoRequest{})
	if err == nil && !info.SyncedToChain {
		err = fmt.Errorf("%w: lnd has not read the whole chain yet", payments.ErrWalletUnavailable)
	}
	return err
}

// Published lists the transactions since an instant in which lnd's wallet paid the
// address so much, the latest first. lnd knows them even after it was restored from its
// seed, once it is ready.
func (w *Wallet) Published(ctx context.Context, address string, sats int64, since time.Time) (paid []ChainPayment, err error) {
	list := func(ctx context.Context, ask *lnrpc.GetTransactionsRequest, opts ...grpc.CallOption) (*lnrpc.TransactionDetails, error) {
		return w.ln.GetTransactions(ctx, ask, append(opts, grpc.MaxCallRecvMsgSize(mostHistory))...)
	}
	reply, err := call(ctx, w, rpcGetTransactions, list, &lnrpc.GetTransactionsRequest{EndHeight: -1})
	if err != nil {
		return nil, err
	}

	for _, tx := range reply.Transactions {
		pays := func(o *lnrpc.OutputDetail) bool { return o.Address == address && o.Amount == sats }
		ours := tx.Amount < 0 // and not one that paid us, with its change there
		if !ours || tx.TimeStamp < since.Add(-clockSlack).Unix() || !slices.ContainsFunc(tx.OutputDetails, pays) {
			continue
		}
		raw, err := hex.DecodeString(tx.RawTxHex)
		if err != nil || len(raw) == 0 {
			return nil, fmt.Errorf("%w: lnd gives no bytes of transaction %s", payments.ErrUnknownOutcome, tx.TxHash)
		}
		paid = append(paid, ChainPayment{Raw: raw, FeeSats: tx.TotalFees})
	}

	return paid, nil
}

// Release frees the inputs that a lease holds.
func (w *Wallet) Release(ctx context.Context, lease [32]byte) error {
	reply, err := call(ctx, w, rpcListLeases, w.wallet.ListLeases, &walletrpc.ListLeasesRequest{})
	if err != nil {
		return err
	}

	for _, l := range reply.LockedUtxos {
		if !bytes.Equal(l.Id, lease[:]) {
			continue
		}
		_, err := call(ctx, w, rpcReleaseOutput, w.wallet.ReleaseOutput, &walletrpc.ReleaseOutputRequest{Id: lease[:], Outpoint: l.Outpoint})
		if err != nil {
			return err
		}
	}
	return nil
}

// Publish sends a signed transaction. It may be repeated.
func (w *Wallet) Publish(ctx context.Context, raw []byte, label string) error {
	_, err := call(ctx, w, rpcPublishTx, w.wallet.PublishTransaction, &walletrpc.Transaction{TxHex: raw, Label: label})
	return err
}

// Transaction looks a transaction of the wallet up. ErrNotFound: it was never
// published, or the wallet has forgotten it.
func (w *Wallet) Transaction(ctx context.Context, txid string) (ChainTx, error) {
	tx, err := call(ctx, w, rpcGetTransaction, w.wallet.GetTransaction, &walletrpc.GetTransactionRequest{Txid: txid})
	if err != nil && isAnswer(err) {
		return ChainTx{}, fmt.Errorf("%w: transaction %s: %w", payments.ErrNotFound, txid, err)
	}
	return ChainTx{Confirmations: int64(max(0, tx.GetNumConfirmations())), FeeSats: tx.GetTotalFees(), Label: tx.GetLabel()}, err
}

// ChainBalance is the wallet's coins: confirmed ones that are free, and those
// that are leased or in no block yet.
func (w *Wallet) ChainBalance(ctx context.Context) (freeSats, otherSats int64, err error) {
	reply, err := call(ctx, w, rpcWalletBalance, w.ln.WalletBalance, &lnrpc.WalletBalanceRequest{})
	return reply.GetConfirmedBalance() - reply.GetLockedBalance(), reply.GetUnconfirmedBalance() + reply.GetLockedBalance(), err
}
