package cashu

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
)

// fakeMelts is the fake mint's Lightning node: NUT-05 with NUT-08's change.
type fakeMelts struct {
	quotes  map[string]*fakeMelt
	pending map[string]bool // by Y

	reserve, route int64  // sats: what is asked for the route's fee, and what it takes
	outcome        string // of the next payments
	preimages      map[payments.Hash]payments.Preimage
}

type fakeMelt struct {
	invoice *bolt11.Invoice
	answer  meltAnswer
	inputs  []note
	blank   []blindedMessage
}

func newFakeMelts() fakeMelts {
	return fakeMelts{quotes: map[string]*fakeMelt{}, pending: map[string]bool{}, preimages: map[payments.Hash]payments.Preimage{}, outcome: meltPaid}
}

// lightning changes how the node pays.
func (m *fakeMint) lightning(outcome string, reserve, route int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.melts.outcome, m.melts.reserve, m.melts.route = outcome, reserve, route
}

// resolve ends the payments that are pending.
func (m *fakeMint) resolve(outcome string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.melts.outcome = outcome
	for _, q := range m.melts.quotes {
		if q.answer.State == meltPending {
			m.pay(q)
		}
	}
}

func (m *fakeMint) meltAnswer(r *http.Request, q fakeQuestion) (status int, doc any, ok bool) {
	path := r.URL.Path
	switch {
	case path == "/v1/melt/quote/bolt11":
		inv, err := bolt11.Decode(q.Request)
		if err != nil {
			status, doc = no(20000, err.Error())
			return status, doc, true
		}
		quote := "m" + strconv.Itoa(len(m.melts.quotes))
		melt := &fakeMelt{invoice: inv, answer: meltAnswer{Quote: quote, Amount: satsFor(inv.AmountMsats), Reserve: m.melts.reserve, State: meltUnpaid}}
		m.melts.quotes[quote] = melt
		return 200, melt.answer, true
	case strings.HasPrefix(path, "/v1/melt/quote/bolt11/"):
		return 200, m.melts.quotes[path[len("/v1/melt/quote/bolt11/"):]].answer, true
	case path == meltPath:
		status, doc = m.melt(m.melts.quotes[q.Quote], q)
		return status, doc, true
	}
	return 0, nil, false
}

func (m *fakeMint) melt(melt *fakeMelt, q fakeQuestion) (int, any) {
	if melt == nil || melt.answer.State != meltUnpaid {
		return no(20006, "the quote is "+melt.answer.State)
	}
	if status, doc, ok := m.spendable(q.Inputs); !ok {
		return status, doc
	}
	if total(q.Inputs)-feeSats(int64(len(q.Inputs))*m.feePPK) < melt.answer.Amount+melt.answer.Reserve {
		return no(11005, "not enough")
	}
	melt.inputs, melt.blank = q.Inputs, q.Outputs
	m.pay(melt)
	return 200, melt.answer
}

func (m *fakeMint) pay(melt *fakeMelt) {
	melt.answer.State = m.melts.outcome
	for _, n := range melt.inputs {
		y, _ := n.y()
		delete(m.melts.pending, y)
		switch m.melts.outcome {
		case meltPaid:
			m.spent[y] = ""
		case meltPending:
			m.melts.pending[y] = true
		}
	}
	if m.melts.outcome != meltPaid {
		return
	}
	melt.answer.Preimage = m.melts.preimages[melt.invoice.PaymentHash].String()
	back := total(melt.inputs) - feeSats(int64(len(melt.inputs))*m.feePPK) - melt.answer.Amount - m.melts.route
	for i := 0; back > 0 && i < len(melt.blank); i++ {
		bit := back & -back
		melt.blank[i].Amount = bit
		melt.answer.Change = append(melt.answer.Change, m.sign(melt.blank[i:i+1])...)
		back -= bit
	}
}

// invoice is one of a stranger's Lightning node.
func (b *bench) invoice(msats int64) (text string, preimage payments.Preimage) {
	b.Helper()
	return testInvoice(b.T, msats, time.Now())
}

func testInvoice(t *testing.T, msats int64, at time.Time) (text string, preimage payments.Preimage) {
	t.Helper()
	key, err := btcec.NewPrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	preimage = payments.Preimage(hashing.Bytes(key.Serialize()))
	inv := &bolt11.Invoice{
		Network: payments.Regtest, AmountMsats: msats, CreatedAt: at.Truncate(time.Second), PaymentHash: preimage.Hash(),
		Description: "for a test", Expiry: time.Hour, Payee: pointText(key.PubKey()), Features: []int{8, 14},
	}
	text, err = bolt11.Encode(inv, func(digest [32]byte) ([65]byte, error) { return [65]byte(ecdsa.SignCompact(key, digest[:], true)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return text, preimage
}
