package cashu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"github.com/lightwork-market/lightwork/payments"
)

// fakeMint is a mint of our own, as far as the wallet uses one. It keeps the
// rules of NUT-03, 04, 07, 09, 12 and 14, which the tests with a real mint
// check too, and breaks them where a test says so.
type fakeMint struct {
	*httptest.Server
	t       *testing.T
	feePPK  int64
	secret  byte   // its keys are made of this
	version string // of its keyset's id
	expiry  int64

	mu     sync.Mutex
	keys   map[int64]*btcec.PrivateKey
	id     string
	signed map[string]blindSignature // by B_
	spent  map[string]string         // Y to witness
	quotes map[string]int64          // by quote; 0 once issued
	melts  fakeMelts
	bits   int // its keys are for 1 to 2^(bits-1) sats
	// endless sats: it says that it has signed whatever it is asked for, for so many.
	endless int64
	asked   int // how often it was
	// meddle may answer a request in the mint's place, or change the answer.
	meddle func(path string, answer func() (int, any)) (status int, doc any)
}

func newFakeMint(t *testing.T, feePPK int64) *fakeMint {
	m := &fakeMint{t: t, feePPK: feePPK, secret: 1, version: version0, signed: map[string]blindSignature{}, spent: map[string]string{}, quotes: map[string]int64{}, melts: newFakeMelts(), bits: 20}
	m.rotate()
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Server.Close)
	return m
}

// place is the mint as payments.CashuNetwork has it.
func (m *fakeMint) place() string { return strings.TrimPrefix(m.URL, "http://") }

// rotate gives the mint other keys.
func (m *fakeMint) rotate() {
	m.secret++
	m.keys = map[int64]*btcec.PrivateKey{}
	k := keyset{feePPK: m.feePPK, expiry: m.expiry, keys: map[int64]*btcec.PublicKey{}}
	for bit := range m.bits {
		seed := sha256.Sum256([]byte{m.secret, byte(bit)})
		key, pub := btcec.PrivKeyFromBytes(seed[:])
		m.keys[1<<bit], k.keys[1<<bit] = key, pub
	}
	m.id = k.deriveID(m.version)
}

func (m *fakeMint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	answer := func() (int, any) { return m.answer(r) }
	var status int
	var doc any
	if m.meddle != nil {
		status, doc = m.meddle(r.URL.Path, answer)
	} else {
		status, doc = answer()
	}
	if status == 0 { // no answer
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if raw, ok := doc.(string); ok {
		_, _ = w.Write([]byte(raw))
		return
	}
	_ = json.NewEncoder(w).Encode(doc)
}

func no(code int, detail string) (int, any) {
	return http.StatusBadRequest, map[string]any{"code": code, "detail": detail}
}

type fakeQuestion struct {
	Inputs  []note           `json:"inputs"`
	Outputs []blindedMessage `json:"outputs"`
	Ys      []string         `json:"Ys"`
	Quote   string           `json:"quote"`
	Amount  int64            `json:"amount"`
	Request string           `json:"request"`
}

func (m *fakeMint) answer(r *http.Request) (int, any) {
	var q fakeQuestion
	if r.Method == http.MethodPost {
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
			return no(10000, err.Error())
		}
	}
	if status, doc, ok := m.meltAnswer(r, q); ok {
		return status, doc
	}
	switch path := r.URL.Path; {
	case path == "/v1/keysets":
		return 200, map[string]any{"keysets": []any{map[string]any{"id": m.id, "unit": "sat", "active": true, "input_fee_ppk": m.feePPK, "final_expiry": m.expiry}}}
	case strings.HasPrefix(path, "/v1/keys/"):
		keys := map[string]string{}
		for sats, key := range m.keys {
			keys[strconv.FormatInt(sats, 10)] = pointText(key.PubKey())
		}
		return 200, map[string]any{"keysets": []any{map[string]any{"id": m.id, "unit": "sat", "keys": keys}}}
	case path == "/v1/swap":
		return m.swap(q)
	case path == "/v1/mint/quote/bolt11":
		quote := "q" + strconv.Itoa(len(m.quotes))
		m.quotes[quote] = q.Amount
		return 200, map[string]any{"quote": quote, "request": "lnbc1made-up", "state": "UNPAID", "expiry": 0}
	case strings.HasPrefix(path, "/v1/mint/quote/bolt11/"):
		quote := path[len("/v1/mint/quote/bolt11/"):]
		state := map[bool]string{true: "PAID", false: "ISSUED"}[m.quotes[quote] > 0]
		return 200, map[string]any{"quote": quote, "state": state}
	case path == "/v1/mint/bolt11":
		var sats int64
		for _, o := range q.Outputs {
			sats += o.Amount
			if _, twice := m.signed[o.B]; twice {
				return no(10002, "outputs already signed")
			}
		}
		if sats != m.quotes[q.Quote] {
			return no(20002, "already issued")
		}
		m.quotes[q.Quote] = 0
		return 200, map[string]any{"signatures": m.sign(q.Outputs)}
	case path == "/v1/checkstate":
		states := []noteState{}
		for _, y := range q.Ys {
			s := noteState{Y: y, State: stateUnspent}
			if witness, spent := m.spent[y]; spent {
				s.State, s.Witness = stateSpent, witness
			} else if m.melts.pending[y] {
				s.State = statePending
			}
			states = append(states, s)
		}
		return 200, map[string]any{"states": states}
	case path == "/v1/restore" && m.endless > 0:
		m.asked++
		for i := range q.Outputs {
			q.Outputs[i].Amount = m.endless
		}
		return 200, map[string]any{"outputs": q.Outputs, "signatures": m.sign(q.Outputs)}
	case path == "/v1/restore":
		outputs, sigs := []blindedMessage{}, []blindSignature{}
		for _, o := range q.Outputs {
			if sig, ok := m.signed[o.B]; ok {
				outputs, sigs = append(outputs, o), append(sigs, sig)
			}
		}
		return 200, map[string]any{"outputs": outputs, "signatures": sigs}
	}
	return http.StatusNotFound, map[string]any{"detail": "no such path"}
}

func (m *fakeMint) swap(q fakeQuestion) (int, any) {
	in, out := total(q.Inputs), int64(0)
	for _, o := range q.Outputs {
		out += o.Amount
		if _, twice := m.signed[o.B]; twice {
			return no(10002, "outputs already signed")
		}
		if o.Keyset != m.id {
			return no(12002, "keyset is inactive")
		}
	}
	if in-feeSats(int64(len(q.Inputs))*m.feePPK) != out {
		return no(11005, "unbalanced")
	}
	if status, doc, ok := m.spendable(q.Inputs); !ok {
		return status, doc
	}
	for _, n := range q.Inputs {
		y, _ := n.y()
		m.spent[y] = n.Witness
	}
	return 200, map[string]any{"signatures": m.sign(q.Outputs)}
}

// spendable checks notes that somebody wants to spend.
func (m *fakeMint) spendable(notes []note) (status int, doc any, ok bool) {
	for _, n := range notes {
		y, _ := n.y()
		if _, spent := m.spent[y]; spent {
			status, doc = no(11001, "already spent")
			return status, doc, false
		}
		if m.melts.pending[y] {
			status, doc = no(11002, "pending")
			return status, doc, false
		}
		if !m.signedNote(n) || !m.unlocked(n) {
			status, doc = no(10003, "not verified")
			return status, doc, false
		}
	}
	return 0, nil, true
}

// signedNote: C = kY.
func (m *fakeMint) signedNote(n note) bool {
	key, ok := m.keys[n.Amount]
	y, err := hashToCurve([]byte(n.Secret))
	if !ok || err != nil {
		return false
	}
	p := times(&key.Key, y)
	want, err := affine(&p)
	return err == nil && pointText(want) == n.C
}

func (m *fakeMint) unlocked(n note) bool {
	if !strings.HasPrefix(n.Secret, "[") {
		return true
	}
	l, err := parseLock(n.Secret)
	var w witness
	if err != nil || json.Unmarshal([]byte(n.Witness), &w) != nil || len(w.Signatures) != 1 {
		return false
	}
	signer := l.payee
	if time.Now().Unix() > l.until {
		signer = l.refund
	} else if p, err := payments.ParsePreimage(w.Preimage); err != nil || p.Hash() != l.hash {
		return false
	}
	raw, _ := hex.DecodeString(w.Signatures[0])
	sig, err := schnorr.ParseSignature(raw)
	key, _ := parsePoint(signer)
	digest := sha256.Sum256([]byte(n.Secret))
	return err == nil && sig.Verify(digest[:], key)
}

// sign is C_ = kB_ with its proof (NUT-12).
func (m *fakeMint) sign(outputs []blindedMessage) []blindSignature {
	sigs := []blindSignature{}
	for _, o := range outputs {
		key := m.keys[o.Amount]
		b, err := parsePoint(o.B)
		if err != nil || key == nil {
			m.t.Errorf("the wallet wants %+v signed", o)
			return sigs
		}
		cj := times(&key.Key, b)
		c, _ := affine(&cj)
		nonce, _ := btcec.NewPrivateKey()
		r2j := times(&nonce.Key, b)
		r2, _ := affine(&r2j)
		h := sha256.New()
		for _, p := range []*btcec.PublicKey{nonce.PubKey(), r2, key.PubKey(), c} {
			h.Write([]byte(hex.EncodeToString(p.SerializeUncompressed())))
		}
		var e, s btcec.ModNScalar
		e.SetByteSlice(h.Sum(nil))
		s.Mul2(&e, &key.Key).Add(&nonce.Key)
		sig := blindSignature{Amount: o.Amount, Keyset: m.id, C: pointText(c), DLEQ: &dleq{E: scalarText(&e), S: scalarText(&s)}}
		m.signed[o.B] = sig
		sigs = append(sigs, sig)
	}
	return sigs
}
