package cashu

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// maxAnswer bounds an answer of the mint, in bytes.
const maxAnswer = 1 << 20

// mint sends requests to one mint. It has no state.
type mint struct {
	url     string
	http    *http.Client
	timeout time.Duration // for one request, up to the last byte of the answer
}

// newMint returns a client that follows no redirects, because these would lead to
// another mint.
func newMint(url string, transport http.RoundTripper, timeout time.Duration) *mint {
	return &mint{url: url, timeout: timeout, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ask sends a request. The error is a *MintError if the mint refused,
// payments.ErrWalletUnavailable if it did not answer (the request may have taken
// effect), and ErrMint if the answer is malformed.
func (m *mint) ask(ctx context.Context, method, path string, question, answer any) error {
	ctx, cancel := context.WithTimeout(ctx, m.timeout)
	defer cancel()

	var body io.Reader
	if question != nil {
		doc, err := json.Marshal(question)
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		body = bytes.NewReader(doc)
	}

	req, err := http.NewRequestWithContext(ctx, method, m.url+path, body)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if question != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := m.http.Do(req)
	if err != nil {
		return fmt.Errorf("%w: the mint: %w", payments.ErrWalletUnavailable, err)
	}
	defer res.Body.Close()

	doc, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: the mint's answer to %s: %w", payments.ErrWalletUnavailable, path, err)
	case len(doc) > maxAnswer:
		return fmt.Errorf("%w: %s: more than %d bytes", ErrMint, path, maxAnswer)
	case res.StatusCode >= 500 || res.StatusCode == http.StatusTooManyRequests:
		return fmt.Errorf("%w: the mint answers %s with status %d", payments.ErrWalletUnavailable, path, res.StatusCode)
	}

	if res.StatusCode != http.StatusOK {
		return refusal(path, res.StatusCode, doc)
	}
	if err := hashing.UnmarshalKnown(doc, answer); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrMint, path, err)
	}

	return nil
}

// refusal requires NUT-00's error object: any other error, for example of a proxy,
// is not the mint's decision.
func refusal(path string, status int, doc []byte) error {
	var e struct {
		Detail any `json:"detail"`
		Code   int `json:"code"`
	}
	if err := hashing.UnmarshalKnown(doc, &e); err != nil || e.Detail == nil || status < 400 {
		return fmt.Errorf("%w: %s: status %d", ErrMint, path, status)
	}
	return &MintError{Path: path, Status: status, Code: e.Code, Detail: printable(fmt.Sprint(e.Detail))}
}

// keysets fetches the mint's keysets for sats. It leaves out unknown versions and
// other units.
func (m *mint) keysets(ctx context.Context) (map[string]*keyset, error) {
	var list struct {
		Keysets []struct {
			ID     string `json:"id"`
			Unit   string `json:"unit"`
			Active bool   `json:"active"`
			FeePPK int64  `json:"input_fee_ppk"`
			Expiry int64  `json:"final_expiry"`
		} `json:"keysets"`
	}
	if err := m.ask(ctx, http.MethodGet, "/v1/keysets", nil, &list); err != nil {
		return nil, err
	}
	if len(list.Keysets) > maxKeysets {
		return nil, fmt.Errorf("%w: %d keysets", ErrMint, len(list.Keysets))
	}

	out := map[string]*keyset{}
	var wrong error
	for _, s := range list.Keysets {
		if s.Unit != unit || !isKeysetID(s.ID) {
			continue
		}
		var answer struct {
			Keysets []struct {
				ID   string            `json:"id"`
				Keys map[string]string `json:"keys"`
			} `json:"keysets"`
		}
		if err := m.ask(ctx, http.MethodGet, "/v1/keys/"+s.ID, nil, &answer); err != nil {
			return nil, err
		}
		if len(answer.Keysets) != 1 || answer.Keysets[0].ID != s.ID {
			wrong = errors.Join(wrong, fmt.Errorf("%w: asked for %s", ErrKeyset, printable(s.ID)))
			continue
		}

		k, err := parseKeyset(keyset{id: s.ID, active: s.Active, feePPK: s.FeePPK, expiry: s.Expiry}, answer.Keysets[0].Keys)
		if err != nil {
			wrong = errors.Join(wrong, err)
			continue
		}
		out[k.id] = k
	}

	if len(out) == 0 && wrong == nil {
		wrong = fmt.Errorf("%w: the mint has none for sats of a version that is known here", ErrKeyset)
	}
	return out, wrong
}

// swap spends the notes and returns signatures on the outputs (NUT-03).
func (m *mint) swap(ctx context.Context, inputs []note, outputs []output) ([]blindSignature, error) {
	question := struct {
		Inputs  []note           `json:"inputs"`
		Outputs []blindedMessage `json:"outputs"`
	}{spendable(inputs), messages(outputs)}
	return m.requestSignatures(ctx, "/v1/swap", question, len(outputs))
}

// issue returns signatures on the outputs for a paid invoice of the mint (NUT-04).
func (m *mint) issue(ctx context.Context, quote string, outputs []output) ([]blindSignature, error) {
	question := struct {
		Quote   string           `json:"quote"`
		Outputs []blindedMessage `json:"outputs"`
	}{quote, messages(outputs)}
	return m.requestSignatures(ctx, "/v1/mint/bolt11", question, len(outputs))
}

func (m *mint) requestSignatures(ctx context.Context, path string, question any, n int) ([]blindSignature, error) {
	var answer struct {
		Signatures []blindSignature `json:"signatures"`
	}
	if err := m.ask(ctx, http.MethodPost, path, question, &answer); err != nil {
		return nil, err
	}
	if len(answer.Signatures) != n {
		return nil, fmt.Errorf("%w: %s: %d signatures for %d outputs", ErrMint, path, len(answer.Signatures), n)
	}
	return answer.Signatures, nil
}

// restore returns the signatures on the outputs if the mint has signed all of them,
// and none if it has signed none (NUT-09).
func (m *mint) restore(ctx context.Context, outputs []output) ([]blindSignature, error) {
	byB, err := m.restoreSome(ctx, outputs)
	if err != nil || len(byB) == 0 {
		return nil, err
	}

	out := make([]blindSignature, len(outputs))
	for i, o := range outputs {
		sig, ok := byB[o.B]
		if !ok {
			return nil, fmt.Errorf("%w: /v1/restore: it signed %d of %d outputs of one request", ErrMint, len(byB), len(outputs))
		}
		out[i] = sig
	}

	return out, nil
}

// restoreSome returns the signatures on those outputs that the mint has signed, by
// their B_ (NUT-09).
func (m *mint) restoreSome(ctx context.Context, outputs []output) (map[string]blindSignature, error) {
	question := struct {
		Outputs []blindedMessage `json:"outputs"`
	}{messages(outputs)}
	var answer struct {
		Outputs    []blindedMessage `json:"outputs"`
		Signatures []blindSignature `json:"signatures"`
	}
	if err := m.ask(ctx, http.MethodPost, "/v1/restore", question, &answer); err != nil {
		return nil, err
	}
	if len(answer.Signatures) != len(answer.Outputs) {
		return nil, fmt.Errorf("%w: /v1/restore: %d signatures for %d outputs", ErrMint, len(answer.Signatures), len(answer.Outputs))
	}

	byB := map[string]blindSignature{}
	for i, o := range answer.Outputs {
		byB[o.B] = answer.Signatures[i]
	}
	return byB, nil
}

// noteState is the state of a note at the mint (NUT-07).
type noteState struct {
	Y       string `json:"Y"`
	State   string `json:"state"`
	Witness string `json:"witness"`
}

const (
	stateUnspent = "UNSPENT"
	statePending = "PENDING"
	stateSpent   = "SPENT"
)

// states asks for the states of the notes and returns them in order.
func (m *mint) states(ctx context.Context, notes []note) ([]noteState, error) {
	ys := make([]string, len(notes))
	for i, n := range notes {
		var err error
		if ys[i], err = n.y(); err != nil {
			return nil, err
		}
	}

	var answer struct {
		States []noteState `json:"states"`
	}
	if err := m.ask(ctx, http.MethodPost, "/v1/checkstate", map[string][]string{"Ys": ys}, &answer); err != nil {
		return nil, err
	}
	if len(answer.States) != len(ys) {
		return nil, fmt.Errorf("%w: /v1/checkstate: %d states for %d notes", ErrMint, len(answer.States), len(ys))
	}

	for i, s := range answer.States {
		valid := s.State == stateUnspent || s.State == statePending || s.State == stateSpent
		if s.Y != ys[i] || !valid {
			return nil, fmt.Errorf("%w: /v1/checkstate: %q for another note", ErrMint, printable(s.State))
		}
	}

	return answer.States, nil
}

func messages(outputs []output) []blindedMessage {
	out := make([]blindedMessage, len(outputs))
	for i, o := range outputs {
		out[i] = o.message()
	}
	return out
}

// spendable returns the notes without their proofs, whose blinding factors would
// tell the mint to whom it issued the notes.
func spendable(notes []note) []note {
	out := make([]note, len(notes))
	for i, n := range notes {
		n.DLEQ = nil
		out[i] = n
	}
	return out
}

// meltAnswer is the answer of NUT-05, as in NUT-23 for Lightning invoices, with the
// change of NUT-08.
type meltAnswer struct {
	Quote    string           `json:"quote"`
	Amount   int64            `json:"amount"`
	Reserve  int64            `json:"fee_reserve"`
	State    string           `json:"state"`
	Expiry   int64            `json:"expiry"`
	Preimage string           `json:"payment_preimage"`
	Change   []blindSignature `json:"change"`
}

const (
	meltUnpaid  = "UNPAID"
	meltPending = "PENDING"
	meltPaid    = "PAID"
)

const meltPath = "/v1/melt/bolt11"

func (m *mint) meltQuote(ctx context.Context, invoice string) (a meltAnswer, err error) {
	err = m.ask(ctx, http.MethodPost, "/v1/melt/quote/bolt11", map[string]string{"request": invoice, "unit": unit}, &a)
	return a, err
}

func (m *mint) meltState(ctx context.Context, quote string) (a meltAnswer, err error) {
	if err = m.ask(ctx, http.MethodGet, "/v1/melt/quote/bolt11/"+url.PathEscape(quote), nil, &a); err != nil {
		return a, err
	}
	return a, a.check()
}

// melt gives the notes for the invoice of the quote. It asks the mint to answer
// before the payment has ended, because no connection lasts as long as a payment
// may.
func (m *mint) melt(ctx context.Context, quote string, inputs []note, blank []output) (a meltAnswer, err error) {
	question := struct {
		Quote   string           `json:"quote"`
		Inputs  []note           `json:"inputs"`
		Outputs []blindedMessage `json:"outputs,omitempty"`
		Async   bool             `json:"prefer_async"`
	}{quote, spendable(inputs), messages(blank), true}
	if err = m.ask(ctx, http.MethodPost, meltPath, question, &a); err != nil {
		return a, err
	}
	return a, a.check()
}

func (a meltAnswer) check() error {
	switch a.State {
	case meltUnpaid, meltPending, meltPaid:
		return nil
	}
	return fmt.Errorf("%w: a melt that is %q", ErrMint, printable(a.State))
}
