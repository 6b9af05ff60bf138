package receipts

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/schemas"
)

// TestPriceIsAWorstCase: begun minutes, input by its bytes, output by its limit,
// all rounded up; what is no amount is no price.
func TestPriceIsAWorstCase(t *testing.T) {
	image := "sha256:" + strings.Repeat("0", 63) + "1"
	sandbox := func(secs int) *schemas.Request {
		return parsed(t, schemas.SandboxRun, fmt.Sprintf(`{"sandbox":{"provider":"host","image_digest":%q,"resources":{"timeout_secs":%d}},"commands":[{"cmd":"true"}]}`, image, secs))
	}
	embed := parsed(t, schemas.Embedding, `{"texts":["`+strings.Repeat("x", 4000)+`"]}`)
	in := int64(len(embed.Canonical)+3) / 4
	for name, tt := range map[string]struct {
		price Price
		req   *schemas.Request
		want  int64
		none  bool
	}{
		"a begun minute":      {price: Price{PerMinuteMsats: 7}, req: sandbox(61), want: 14},
		"a whole minute":      {price: Price{BaseMsats: 1, PerMinuteMsats: 7}, req: sandbox(60), want: 8},
		"a minute for texts":  {price: Price{PerMinuteMsats: 7}, req: embed, want: 7},
		"input":               {price: Price{InputMsats: 1000}, req: embed, want: in},
		"input, rounded up":   {price: Price{InputMsats: 1}, req: embed, want: (in + 999) / 1000},
		"output at the cap":   {price: Price{OutputMsats: 3000, MaxOutputTokens: 500}, req: embed, want: 1500},
		"output without cap":  {price: Price{OutputMsats: 3000}, req: embed, none: true},
		"negative":            {price: Price{BaseMsats: -1}, req: embed, none: true},
		"more than there is":  {price: Price{BaseMsats: 1<<53 - 1, PerMinuteMsats: 1}, req: embed, none: true},
		"product overflows":   {price: Price{PerMinuteMsats: 1<<53 - 1}, req: sandbox(3600), none: true},
		"an output that free": {price: Price{MaxOutputTokens: 5}, req: embed, want: 0},
	} {
		if got, ok := tt.price.For(tt.req); got != tt.want && ok || ok == tt.none {
			t.Errorf("%s: %d, %v; want %d", name, got, ok, tt.want)
		}
	}
}

// TestOutputLimit: a request's own limit counts, up to the announced one.
func TestOutputLimit(t *testing.T) {
	p := Price{OutputMsats: 1000, MaxOutputTokens: 100}
	for limit, want := range map[int64]int64{0: 100, 1: 1, 100: 100, -5: 100} {
		req := &schemas.Request{Canonical: fmt.Appendf(nil, `{"max_tokens":%d}`, limit)}
		if got, ok := p.For(req); got != want || !ok {
			t.Errorf("max_tokens %d: %d, %v", limit, got, ok)
		}
	}
	if _, ok := p.For(&schemas.Request{Canonical: []byte(`{"max_tokens":101}`)}); ok {
		t.Error("more output than allowed has a price")
	}
}

func parsed(t *testing.T, id schemas.ID, doc string) *schemas.Request {
	t.Helper()
	s, _ := schemas.Lookup(string(id))
	req, err := s.ParseRequest([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return req
}
