package lnd

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lightningnetwork/lnd/lnrpc"
	"github.com/lightningnetwork/lnd/lnrpc/invoicesrpc"
	"github.com/lightningnetwork/lnd/lnrpc/routerrpc"
	"github.com/lightningnetwork/lnd/lnrpc/walletrpc"
	"google.golang.org/grpc"

	"github.com/lightwork-market/lightwork/payments"
)

// The RPCs of this package, under the names of lnd's permissions.
const (
	rpcGetInfo         = "/lnrpc.Lightning/GetInfo"
	rpcChannelBalance  = "/lnrpc.Lightning/ChannelBalance"
	rpcListChannels    = "/lnrpc.Lightning/ListChannels"
	rpcAddInvoice      = "/lnrpc.Lightning/AddInvoice"
	rpcLookupInvoice   = "/lnrpc.Lightning/LookupInvoice"
	rpcListInvoices    = "/lnrpc.Lightning/ListInvoices"
	rpcSubscribe       = "/lnrpc.Lightning/SubscribeInvoices"
	rpcHTLCResolution  = "/lnrpc.Lightning/LookupHtlcResolution"
	rpcAddHoldInvoice  = "/invoicesrpc.Invoices/AddHoldInvoice"
	rpcSettleInvoice   = "/invoicesrpc.Invoices/SettleInvoice"
	rpcCancelInvoice   = "/invoicesrpc.Invoices/CancelInvoice"
	rpcSubscribeSingle = "/invoicesrpc.Invoices/SubscribeSingleInvoice"
	rpcSendPayment     = "/routerrpc.Router/SendPaymentV2"
	rpcTrackPayment    = "/routerrpc.Router/TrackPaymentV2"

	// For on-chain payments.
	rpcNewAddress      = "/lnrpc.Lightning/NewAddress"
	rpcGetTransactions = "/lnrpc.Lightning/GetTransactions"
	rpcWalletBalance   = "/lnrpc.Lightning/WalletBalance"
	rpcEstimateFee     = "/walletrpc.WalletKit/EstimateFee"
	rpcFundPsbt        = "/walletrpc.WalletKit/FundPsbt"
	rpcFinalizePsbt    = "/walletrpc.WalletKit/FinalizePsbt"
	rpcListLeases      = "/walletrpc.WalletKit/ListLeases"
	rpcReleaseOutput   = "/walletrpc.WalletKit/ReleaseOutput"
	rpcPublishTx       = "/walletrpc.WalletKit/PublishTransaction"
	rpcGetTransaction  = "/walletrpc.WalletKit/GetTransaction"
)

// Role is the purpose of a wallet.
type Role string

// The roles: a payee makes invoices and cannot spend; a payer pays invoices and
// cannot make any.
const (
	Payee Role = "payee"
	Payer Role = "payer"
	// The same for on-chain payments, with lnd's own coins.
	ChainPayee Role = "chain-payee"
	ChainPayer Role = "chain-payer"
)

// PermissionURIs lists exactly the RPCs that the role calls. Bake a macaroon for it
// with
//
//	lncli bakemacaroon --save_to FILE uri:URI uri:URI ...
//
// It permits less than lnd's own invoice.macaroon, which can also make on-chain
// addresses and read the on-chain wallet. For an unknown role the result is nil.
func PermissionURIs(role Role) []string {
	switch role {
	case Payee:
		return slices.Clone(payeeURIs[:])
	case Payer:
		return slices.Clone(payerURIs[:])
	case ChainPayee:
		return slices.Clone(chainPayeeURIs[:])
	case ChainPayer:
		return slices.Clone(chainPayerURIs[:])
	}
	return nil
}

var (
	payeeURIs = [...]string{
		rpcGetInfo, rpcChannelBalance,
		rpcAddInvoice, rpcLookupInvoice, rpcListInvoices, rpcSubscribe, rpcHTLCResolution,
		rpcAddHoldInvoice, rpcSettleInvoice, rpcCancelInvoice, rpcSubscribeSingle,
	}
	payerURIs = [...]string{rpcGetInfo, rpcChannelBalance, rpcListChannels, rpcSendPayment, rpcTrackPayment}

	chainPayeeURIs = [...]string{
		rpcGetInfo, rpcWalletBalance, rpcNewAddress, rpcGetTransactions, rpcAddHoldInvoice, rpcLookupInvoice, rpcCancelInvoice,
	}
	chainPayerURIs = [...]string{
		rpcGetInfo, rpcWalletBalance, rpcGetTransactions, rpcEstimateFee, rpcFundPsbt, rpcFinalizePsbt, rpcListLeases, rpcReleaseOutput, rpcPublishTx, rpcGetTransaction,
	}
)

// CheckPermissions returns nil if the macaroon permits all calls of the role. lnd
// lists the permissions of a macaroon only to callers with another permission, so
// each RPC is called; those that change something are called with a request that
// lnd refuses after it has checked the macaroon. The error is
// payments.ErrUnauthorized and names all missing permissions, or says why lnd could
// not be asked.
func (w *Wallet) CheckPermissions(ctx context.Context, role Role) error {
	var missing []string
	for _, uri := range PermissionURIs(role) {
		err := w.probe(ctx, uri)
		switch {
		case errors.Is(err, payments.ErrUnauthorized):
			missing = append(missing, "uri:"+uri)
		case ctx.Err() != nil, uri == rpcGetInfo && errors.Is(err, payments.ErrWalletUnavailable):
			return err
		}
	}

	if len(missing) > 0 {
		return fmt.Errorf("%w: the macaroon lacks %s", payments.ErrUnauthorized, strings.Join(missing, " "))
	}
	return nil
}

// refusalTime is how long to wait for a refusal on a stream that stays silent
// otherwise.
const refusalTime = time.Second

// tooShort is not a valid hash, preimage, lease or transaction, so lnd refuses
// requests with it.
var tooShort = []byte{0}

const (
	noAddressType = lnrpc.AddressType(-1)
	aboveTheChain = 1 << 30 // a height above every block
)

// probe calls an RPC of a role without changing anything.
func (w *Wallet) probe(ctx context.Context, uri string) (err error) {
	switch uri {
	case rpcGetInfo:
		_, err = call(ctx, w, uri, w.ln.GetInfo, &lnrpc.GetInfoRequest{})
	case rpcChannelBalance:
		_, err = call(ctx, w, uri, w.ln.ChannelBalance, &lnrpc.ChannelBalanceRequest{})
	case rpcListChannels:
		_, err = call(ctx, w, uri, w.ln.ListChannels, &lnrpc.ListChannelsRequest{})
	case rpcListInvoices:
		_, err = call(ctx, w, uri, w.ln.ListInvoices, &lnrpc.ListInvoiceRequest{NumMaxInvoices: 1})
	case rpcAddInvoice:
		_, err = call(ctx, w, uri, w.ln.AddInvoice, &lnrpc.Invoice{Value: -1, ValueMsat: -1})
	case rpcAddHoldInvoice:
		_, err = call(ctx, w, uri, w.invoices.AddHoldInvoice, &invoicesrpc.AddHoldInvoiceRequest{Hash: tooShort, Value: -1, ValueMsat: -1})
	case rpcLookupInvoice:
		_, err = call(ctx, w, uri, w.ln.LookupInvoice, &lnrpc.PaymentHash{RHash: tooShort})
	case rpcHTLCResolution:
		_, err = call(ctx, w, uri, w.ln.LookupHtlcResolution, &lnrpc.LookupHtlcResolutionRequest{})
	case rpcSettleInvoice:
		_, err = call(ctx, w, uri, w.invoices.SettleInvoice, &invoicesrpc.SettleInvoiceMsg{Preimage: tooShort})
	case rpcCancelInvoice:
		_, err = call(ctx, w, uri, w.invoices.CancelInvoice, &invoicesrpc.CancelInvoiceMsg{PaymentHash: tooShort})
	case rpcSubscribe: // silent unless an invoice changes
		silent, cancel := context.WithTimeout(ctx, refusalTime)
		defer cancel()
		err = first(silent, w, uri, w.ln.SubscribeInvoices, &lnrpc.InvoiceSubscription{})
	case rpcSubscribeSingle:
		err = first(ctx, w, uri, w.invoices.SubscribeSingleInvoice, &invoicesrpc.SubscribeSingleInvoiceRequest{RHash: tooShort})
	case rpcSendPayment:
		err = first(ctx, w, uri, w.router.SendPaymentV2, &routerrpc.SendPaymentRequest{PaymentRequest: "none", AmtMsat: -1})
	case rpcTrackPayment:
		err = first(ctx, w, uri, w.router.TrackPaymentV2, &routerrpc.TrackPaymentRequest{PaymentHash: tooShort})

	case rpcNewAddress:
		_, err = call(ctx, w, uri, w.ln.NewAddress, &lnrpc.NewAddressRequest{Type: noAddressType})
	case rpcGetTransactions:
		_, err = call(ctx, w, uri, w.ln.GetTransactions, &lnrpc.GetTransactionsRequest{StartHeight: aboveTheChain, EndHeight: aboveTheChain, MaxTransactions: 1})
	case rpcWalletBalance:
		_, err = call(ctx, w, uri, w.ln.WalletBalance, &lnrpc.WalletBalanceRequest{})
	case rpcEstimateFee:
		_, err = call(ctx, w, uri, w.wallet.EstimateFee, &walletrpc.EstimateFeeRequest{})
	case rpcFundPsbt:
		_, err = call(ctx, w, uri, w.wallet.FundPsbt, &walletrpc.FundPsbtRequest{}) // without outputs and a fee rate
	case rpcFinalizePsbt:
		_, err = call(ctx, w, uri, w.wallet.FinalizePsbt, &walletrpc.FinalizePsbtRequest{FundedPsbt: tooShort})
	case rpcListLeases:
		_, err = call(ctx, w, uri, w.wallet.ListLeases, &walletrpc.ListLeasesRequest{})
	case rpcReleaseOutput:
		_, err = call(ctx, w, uri, w.wallet.ReleaseOutput, &walletrpc.ReleaseOutputRequest{Id: tooShort})
	case rpcPublishTx:
		_, err = call(ctx, w, uri, w.wallet.PublishTransaction, &walletrpc.Transaction{})
	case rpcGetTransaction:
		_, err = call(ctx, w, uri, w.wallet.GetTransaction, &walletrpc.GetTransactionRequest{})
	}

	return err
}

// first reads the first message of a stream.
func first[Request, Reply any, Stream interface{ Recv() (Reply, error) }](
	ctx context.Context, w *Wallet, rpc string,
	ask func(context.Context, Request, ...grpc.CallOption) (Stream, error), request Request,
) error {
	limited, cancel := context.WithTimeout(ctx, w.cfg.CallTimeout)
	defer cancel()
	stream, err := ask(limited, request)
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		return w.fail(ctx, rpc, err)
	}
	return nil
}
