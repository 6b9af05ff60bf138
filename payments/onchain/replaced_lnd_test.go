//go:build lnd

package onchain

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcutil/psbt"
	"github.com/btcsuite/btcd/wire"

	"github.com/lightwork-market/lightwork/payments"
)

// replaceable signs a transaction of the payer's that may be replaced (BIP 125):
// ours signal no such thing, a buyer that means to cheat does. Two of them spend
// the same coin.
func (m *pair) replaceable(t *testing.T, address string, sats, satPerVByte int64) []byte {
	t.Helper()
	draft, err := m.carol.Draft(t.Context(), address, sats, satPerVByte)
	must(t, err)
	packet, err := psbt.NewFromRawBytes(bytes.NewReader(draft), false)
	must(t, err)
	for _, in := range packet.UnsignedTx.TxIn {
		in.Sequence = wire.MaxTxInSequenceNum - 2
	}
	var changed bytes.Buffer
	must(t, packet.Serialize(&changed))
	raw, err := m.carol.Sign(t.Context(), changed.Bytes())
	must(t, err)
	return raw
}

// rivals are two transactions that spend one coin: the second one pays the miners
// more.
func (m *pair) rivals(t *testing.T, firstTo, secondTo string) (first, second []byte) {
	t.Helper()
	const sats = 200_000
	first, second = m.replaceable(t, firstTo, sats, 10), m.replaceable(t, secondTo, sats, 40)
	if one, other := coins(t, first), coins(t, second); !slices.Equal(one, other) {
		t.Fatalf("no rivals: one spends %v, the other %v", one, other)
	}
	return first, second
}

// coins are what a transaction spends.
func coins(t *testing.T, raw []byte) (list []wire.OutPoint) {
	t.Helper()
	var tx wire.MsgTx
	must(t, tx.Deserialize(bytes.NewReader(raw)))
	for _, in := range tx.TxIn {
		list = append(list, in.PreviousOutPoint)
	}
	return list
}

// ordered is a request, its address, and an address of the payer's own.
func (m *pair) ordered(t *testing.T) (inv payments.Invoice, address, own string) {
	t.Helper()
	inv = create(t, m.payee.Wallet, m.wants())
	to, err := m.payer.checkPay(t.Context(), m.pay(inv))
	must(t, err)
	own, err = m.payer.ln.NewAddress(t.Context())
	must(t, err)
	return inv, to.address, own
}

// replaceBy publishes a transaction that takes the place of what waits for a block.
func (m *pair) replaceBy(t *testing.T, rival []byte) (txid string) {
	t.Helper()
	txid, err := m.net.Publish(t.Context(), rival)
	must(t, err)
	if waiting, err := m.net.Waiting(t.Context()); err != nil || !slices.Equal(waiting, []string{txid}) {
		t.Fatalf("%v, %v wait for a block, not %s alone", waiting, err, txid)
	}
	return txid
}

// neverPaid mines until the rival is final, and the request must not be.
func (m *pair) neverPaid(t *testing.T, inv payments.Invoice, rival string) {
	t.Helper()
	for range 4 {
		must(t, m.net.Mine(t.Context(), 1))
		got, err := m.payee.LookupInvoice(t.Context(), inv.PaymentHash)
		if err != nil || got.State != payments.InvoicePending && got.State != payments.InvoiceOpen || got.Final {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	for { // Carol's lnd may be a moment behind
		tx, err := m.payer.ln.Transaction(t.Context(), rival)
		if err == nil && tx.Confirmations >= 4 {
			return
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("%+v, %v", tx, err)
		}
	}
}

// replacedAway: the buyer pays, and takes its money back before a block has it.
func (m *pair) replacedAway(t *testing.T) {
	inv, address, own := m.ordered(t)
	payment, rival := m.rivals(t, address, own)
	_, err := m.net.Publish(t.Context(), payment)
	must(t, err)
	until(t, m.payee, inv, payments.InvoicePending)
	m.neverPaid(t, inv, m.replaceBy(t, rival))
	// Alice's lnd has not heard of the rival, which is nothing of hers. It finds
	// out when it starts and sends what waits for a block once more.
	m.net.Alice.Kill()
	must(t, m.net.Alice.Start(t.Context()))
	if got := until(t, m.payee, inv, payments.InvoiceOpen); got.PaidMsats != 0 {
		t.Errorf("%+v", got)
	}
}

// replacedAfterBlock: as replacedAway, when a block had the payment once.
func (m *pair) replacedAfterBlock(t *testing.T) {
	inv, address, own := m.ordered(t)
	payment, rival := m.rivals(t, address, own)
	_, err := m.net.Publish(t.Context(), payment)
	must(t, err)
	until(t, m.payee, inv, payments.InvoicePending)
	must(t, m.net.Mine(t.Context(), 1))
	must(t, m.net.Disconnect(t.Context(), 1))
	m.neverPaid(t, inv, m.replaceBy(t, rival))
}

// replacedInPlace: the buyer pays the miners more, and the payee the same: that
// is one payment.
func (m *pair) replacedInPlace(t *testing.T) {
	inv, address, _ := m.ordered(t)
	slow, quick := m.rivals(t, address, address)
	_, err := m.net.Publish(t.Context(), slow)
	must(t, err)
	until(t, m.payee, inv, payments.InvoicePending)
	txid := m.replaceBy(t, quick)
	must(t, m.net.Mine(t.Context(), 2))
	got := until(t, m.payee, inv, payments.InvoiceSettled)
	if got.PaidMsats != inv.AmountMsats || !strings.HasPrefix(got.Outpoints, txid+":") || strings.Contains(got.Outpoints, ",") {
		t.Errorf("%+v; paid by %s", got, txid)
	}
	m.net.Alice.Kill()
	must(t, m.net.Alice.Start(t.Context()))
	outputs, height, err := m.payee.ln.Received(t.Context(), 0)
	must(t, err)
	if all := paid(address, outputs, 0); all.sats*msatsPerSat != inv.AmountMsats {
		t.Errorf("at %d the address has %d sat", height, all.sats)
	}
}
