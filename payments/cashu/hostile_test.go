package cashu

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

// meddled answers a path of the mint's in its place.
func (m *fakeMint) meddled(path string, with func(status int, doc any) (int, any)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddle = func(p string, answer func() (int, any)) (int, any) {
		if strings.HasPrefix(p, path) {
			return with(answer())
		}
		return answer()
	}
}

func (m *fakeMint) honest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.meddle = nil
}

// Keys that are not what their id says, or that make no sense, are not used.
func TestMintLiesAboutKeys(t *testing.T) {
	t.Parallel()
	list := func(id, unit string, active bool, fee any) any {
		return map[string]any{"keysets": []any{map[string]any{"id": id, "unit": unit, "active": active, "input_fee_ppk": fee}}}
	}
	m := newFakeMint(t, 0)
	for name, c := range map[string]struct {
		path string
		doc  any
		want error
	}{
		"another id":     {"/v1/keysets", list("00ffffffffffffff", "sat", true, 0), ErrKeyset},
		"another unit":   {"/v1/keysets", list(m.id, "usd", true, 0), ErrKeyset},
		"none active":    {"/v1/keysets", list(m.id, "sat", false, 0), ErrKeyset},
		"a robber's fee": {"/v1/keysets", list(m.id, "sat", true, 1_000_000), ErrKeyset},
		"negative fee":   {"/v1/keysets", list(m.id, "sat", true, -1), ErrKeyset},
		"fee as text":    {"/v1/keysets", list(m.id, "sat", true, "0"), ErrMint},
		"no keys":        {"/v1/keys/", map[string]any{"keysets": []any{}}, ErrKeyset},
		"a key missing":  {"/v1/keys/", map[string]any{"keysets": []any{map[string]any{"id": m.id, "keys": map[string]string{"1": pointText(m.keys[1].PubKey())}}}}, ErrKeyset},
		"no point":       {"/v1/keys/", map[string]any{"keysets": []any{map[string]any{"id": m.id, "keys": map[string]string{"1": "02ff"}}}}, ErrKeyset},
		"no JSON":        {"/v1/keysets", "<html>", ErrMint},
		"twice a key":    {"/v1/keysets", `{"keysets":[],"keysets":[]}`, ErrMint},
		"huge":           {"/v1/keysets", `{"keysets":"` + strings.Repeat("a", maxAnswer) + `"}`, ErrMint},
	} {
		b := newBench(t, m.place())
		w, stop := b.open("payer")
		m.meddled(c.path, func(int, any) (int, any) { return http.StatusOK, c.doc })
		if _, err := w.Topup(t.Context(), 10); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		m.honest()
		stop()
	}
}

// A mint that signs something else than it was asked to gives no notes; what is
// true later is taken then.
func TestMintSignsWrongly(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*blindSignature){
		"another amount":  func(s *blindSignature) { s.Amount *= 2 },
		"another keyset":  func(s *blindSignature) { s.Keyset = "00ffffffffffffff" },
		"no proof":        func(s *blindSignature) { s.DLEQ = nil },
		"another proof":   func(s *blindSignature) { s.DLEQ = &dleq{E: s.DLEQ.S, S: s.DLEQ.E} },
		"another point":   func(s *blindSignature) { s.C = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798" },
		"no point at all": func(s *blindSignature) { s.C = "00" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFakeMint(t, 0)
			b := newBench(t, m.place())
			w, _ := b.open("payer")
			lied := make(chan struct{}, 100)
			spoiled := func(status int, doc any) (int, any) {
				sigs, ok := doc.(map[string]any)["signatures"].([]blindSignature)
				if !ok || len(sigs) == 0 {
					return status, doc
				}
				out := append([]blindSignature(nil), sigs...)
				spoil(&out[0])
				lied <- struct{}{}
				return status, map[string]any{"signatures": out, "outputs": doc.(map[string]any)["outputs"]}
			}
			m.meddled("/v1/mint/bolt11", spoiled)
			topup := must[Topup](b)(w.Topup(t.Context(), 3))
			<-lied
			m.meddled("/v1/restore", spoiled)
			<-lied // asked again, it lies again
			if got := b.spendable(w); got != 0 {
				t.Errorf("%d msats of nothing", got)
			}
			m.honest()
			if err := w.AwaitTopup(t.Context(), topup); err != nil {
				t.Fatal(err)
			}
			if got := b.spendable(w); got != 3000 {
				t.Errorf("%d msats", got)
			}
		})
	}
}

// A mint that answers too slowly is away, and one that is away changes nothing.
func TestMintIsSlow(t *testing.T) {
	t.Parallel()
	m := newFakeMint(t, 0)
	b := newBench(t, m.place())
	w, _ := b.open("payer", func(c *Config) { c.Transport = stuck{} })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := w.Topup(ctx, 1); !errors.Is(err, payments.ErrWalletUnavailable) {
		t.Errorf("%v", err)
	}
}

// stuck never answers.
type stuck struct{}

func (stuck) RoundTrip(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}
