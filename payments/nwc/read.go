package nwc

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
)

// Node describes the node behind the wallet as reported by the service. PubKey is
// empty if the service does not report it. The first answer is cached.
func (c *Client) Node(ctx context.Context) (payments.Node, error) {
	c.mu.Lock()
	node := c.node
	c.mu.Unlock()
	if node.Network != "" {
		return node, nil
	}
	info, err := c.nodeInfo(ctx)
	if err != nil {
		return payments.Node{}, fmt.Errorf("describe node: %w", err)
	}
	if node, err = readNode(info); err != nil {
		return payments.Node{}, fmt.Errorf("describe node: %w", err)
	}
	if c.cfg.Network != "" && node.Network != c.cfg.Network {
		return payments.Node{}, fmt.Errorf("describe node: %w: the wallet is on %s, not %s", payments.ErrWrongNetwork, node.Network, c.cfg.Network)
	}

	node.Account = c.cfg.Connection.Secret.PublicKey() // a service has an account for each connection
	c.mu.Lock()
	c.node = node
	c.mu.Unlock()
	return node, nil
}

func (c *Client) nodeInfo(ctx context.Context) (infoResult, error) {
	var info infoResult
	err := c.call(ctx, GetInfo, struct{}{}, &info)
	return info, err
}

func readNode(info infoResult) (payments.Node, error) {
	node := payments.Node{Alias: clip.Line(info.Alias, 64)}
	name := strings.ToLower(info.Network)
	if name == "bitcoin" {
		name = string(payments.Mainnet) // wallets on LDK write it so
	}
	var err error
	if node.Network, err = payments.ParseNetwork(name); err != nil {
		return payments.Node{}, fmt.Errorf("%w: network %q", payments.ErrWrongNetwork, clip.Line(info.Network, 40))
	}
	key := strings.ToLower(info.PubKey)
	if b, err := hex.DecodeString(key); err == nil && len(b) == 33 {
		node.PubKey = key
	}
	return node, nil
}

// Balance is the amount that the connection may spend now. ReservedMsats is 0
// unless the service reports it, which most do not.
func (c *Client) Balance(ctx context.Context) (payments.Balance, error) {
	var r balanceResult
	if err := c.call(ctx, GetBalance, struct{}{}, &r); err != nil {
		return payments.Balance{}, fmt.Errorf("read balance: %w", err)
	}
	for _, msats := range []int64{r.Balance, r.Reserved} {
		if err := payments.CheckMsats(msats); err != nil {
			return payments.Balance{}, fmt.Errorf("read balance: %w: %w: %w", payments.ErrWalletUnavailable, ErrAnswer, err)
		}
	}
	return payments.Balance{SpendableMsats: r.Balance, ReservedMsats: r.Reserved}, nil
}

// maxPage is the most transactions that NIP-47 recommends for one request.
const maxPage = 20

// Transaction is one entry of a wallet's history as reported by the service.
type Transaction struct {
	Incoming    bool
	State       string // pending, settled, accepted, expired or failed; "" if not reported
	BOLT11      string
	PaymentHash payments.Hash
	AmountMsats int64
	FeesMsats   int64
	Description string // printable, at most 200 characters
	CreatedAt   time.Time
	SettledAt   time.Time // zero until settled
}

// Transactions lists the newest invoices and payments, including unpaid ones, at
// most 20; offset skips the newest.
func (c *Client) Transactions(ctx context.Context, offset int) ([]Transaction, error) {
	var r listResult
	if err := c.call(ctx, ListTransactions, listParams{Limit: maxPage, Offset: offset, Unpaid: true}, &r); err != nil {
		return nil, fmt.Errorf("list transactions: %w", err)
	}
	if len(r.Transactions) > maxPage {
		r.Transactions = r.Transactions[:maxPage]
	}

	list := make([]Transaction, 0, len(r.Transactions))
	for _, t := range r.Transactions {
		hash, err := t.hash()
		if err == nil {
			err = t.check()
		}
		if err != nil {
			return nil, fmt.Errorf("list transactions: %w: %w", payments.ErrWalletUnavailable, err)
		}
		list = append(list, Transaction{
			Incoming: t.Type == typeIncoming, State: clip.Line(t.State, 20), BOLT11: t.Invoice, PaymentHash: hash,
			AmountMsats: t.Amount, FeesMsats: t.FeesPaid, Description: clip.Line(t.Description, 200),
			CreatedAt: unix(t.CreatedAt), SettledAt: unix(t.SettledAt),
		})
	}

	return list, nil
}

// lookup looks up an invoice or a payment by its hash.
func (c *Client) lookup(ctx context.Context, hash payments.Hash) (transaction, error) {
	var t transaction
	if err := c.call(ctx, LookupInvoice, lookupParams{PaymentHash: hash.String()}, &t); err != nil {
		return transaction{}, err
	}
	err := t.check()
	if err == nil {
		var got payments.Hash
		if got, err = t.hash(); err == nil && got != hash {
			err = fmt.Errorf("%w: it is about another payment", ErrAnswer)
		}
	}

	return t, wrapUnclear(err)
}
