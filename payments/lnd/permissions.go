package lnd

import "slices"

// The RPCs that this package calls, by the names that lnd's permissions use.
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

	// On the chain.
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

// Role is what a wallet is used for.
type Role string

// The roles: a payee makes invoices and cannot spend; a payer pays invoices and
// cannot make any.
const (
	Payee Role = "payee"
	Payer Role = "payer"
	// The same on the chain, through lnd's own coins.
	ChainPayee Role = "chain-payee"
	ChainPayer Role = "chain-payer"
)

// PermissionURIs lists the RPCs that the role calls, and nothing else. The
// macaroon for it is baked with
//
//	lncli bakemacaroon --save_to FILE uri:URI uri:URI ...
//
// which is narrower than lnd's own invoice.macaroon: that one can also make
// on-chain addresses and read the on-chain wallet. An unknown role gives nil.
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
		rpcGetInfo, rpcWalletBalance, rpcEstimateFee, rpcFundPsbt, rpcFinalizePsbt, rpcListLeases, rpcReleaseOutput, rpcPublishTx, rpcGetTransaction,
	}
)
