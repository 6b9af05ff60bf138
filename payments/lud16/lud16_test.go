package lud16

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/ecdsa"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/payments/bolt11"
	"github.com/lightwork-market/lightwork/relay"
)

const (
	metadata = `[["text/plain","to me"],["text/identifier","me@example.com"]]`
	msats    = 21_000
)

// service is what is behind me@example.com; its fields change one thing each.
type service struct {
	tag, callback  string
	amount         int64
	hash           string // of this text is the invoice's description hash; "" for a text
	status         int
	first, second  string // the whole answer, if not ""
	asked, ordered []string
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.status != 0 {
		w.Header().Set("Location", "https://elsewhere.example/")
		w.WriteHeader(s.status)
		return
	}
	if strings.HasPrefix(r.URL.Path, "/.well-known/") {
		s.asked = append(s.asked, r.Host+r.URL.Path)
		if s.first != "" {
			fmt.Fprint(w, s.first)
			return
		}
		fmt.Fprintf(w, `{"tag":%q,"callback":%q,"minSendable":1000,"maxSendable":1000000,"metadata":%q}`, s.tag, s.callback, metadata)
		return
	}
	s.ordered = append(s.ordered, r.Host+r.URL.String())
	if s.second != "" {
		fmt.Fprint(w, s.second)
		return
	}
	fmt.Fprintf(w, `{"pr":%q,"routes":[]}`, invoiceFor(s.amount, s.hash))
}

func invoiceFor(amount int64, hashed string) string {
	key, err := btcec.NewPrivateKey()
	if err != nil {
		panic(err)
	}
	inv := &bolt11.Invoice{Network: payments.Mainnet, AmountMsats: amount, CreatedAt: time.Now(), Description: "to me"}
	rand.Read(inv.PaymentHash[:])
	rand.Read(inv.PaymentSecret[:])
	if hashed != "" {
		d := hashing.Bytes([]byte(hashed))
		inv.Description, inv.DescriptionHash = "", &d
	}
	pr, err := bolt11.Encode(inv, func(hash [32]byte) ([65]byte, error) { return [65]byte(ecdsa.SignCompact(key, hash[:], true)), nil })
	if err != nil {
		panic(err)
	}
	return pr
}

// serve starts the service under TLS and returns a resolver that knows its
// certificate, and where example.com is.
func serve(t *testing.T, s *service) *Resolver {
	t.Helper()
	if s.tag == "" {
		s.tag = "payRequest"
	}
	if s.callback == "" {
		s.callback = "https://example.com/cb?user=me"
	}
	if s.amount == 0 {
		s.amount = msats
	}
	server := httptest.NewTLSServer(s)
	t.Cleanup(server.Close)
	client := server.Client()
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		if address != "example.com:443" {
			t.Errorf("dialed %s", address)
			return nil, errors.New("no such place")
		}
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	return New(Config{Client: client, Timeout: time.Minute})
}

func TestAddressGivesItsInvoice(t *testing.T) {
	for _, hashed := range []string{metadata, ""} {
		s := &service{hash: hashed}
		pr, err := serve(t, s).Invoice(t.Context(), "me@example.com", msats)
		if err != nil {
			t.Fatal(err)
		}
		if inv, err := bolt11.Decode(pr); err != nil || inv.AmountMsats != msats {
			t.Errorf("%+v, %v", inv, err)
		}
		if len(s.asked) != 1 || s.asked[0] != "example.com/.well-known/lnurlp/me" || len(s.ordered) != 1 || s.ordered[0] != "example.com/cb?amount=21000&user=me" {
			t.Errorf("asked %q, then %q", s.asked, s.ordered)
		}
	}
}

func TestServicesThatAreNotBelieved(t *testing.T) {
	for name, tt := range map[string]struct {
		service
		want error
		says string
	}{
		"refuses":              {service{first: `{"status":"ERROR","reason":"gone\nfor good"}`}, ErrService, "refuses: gone for good"},
		"refuses the amount":   {service{second: `{"status":"ERROR","reason":"too busy"}`}, ErrService, "too busy"},
		"no pay request":       {service{tag: "withdrawRequest"}, ErrService, "no pay request"},
		"a callback twice":     {service{first: `{"tag":"payRequest","callback":"https://example.com/","callback":"https://other.example/","minSendable":1,"maxSendable":21001}`}, ErrService, "does not answer in JSON"},
		"less than it takes":   {service{first: `{"tag":"payRequest","callback":"https://example.com/","minSendable":21001,"maxSendable":30000}`}, ErrAmount, "it takes 21001 to 30000"},
		"more than it takes":   {service{first: `{"tag":"payRequest","callback":"https://example.com/","minSendable":1,"maxSendable":20999}`}, ErrAmount, "it takes 1 to 20999"},
		"plain http":           {service{callback: "http://example.com/cb"}, ErrService, "https callback"},
		"a number for a host":  {service{callback: "https://169.254.169.254/cb"}, ErrService, "https callback"},
		"an odd number":        {service{callback: "https://0x7f.1/cb"}, ErrService, "https callback"},
		"another port":         {service{callback: "https://example.com:22/cb"}, ErrService, "https callback"},
		"a password":           {service{callback: "https://a:b@example.com/cb"}, ErrService, "https callback"},
		"another amount":       {service{amount: msats + 1}, ErrInvoice, "it is for 21001 msats"},
		"another description":  {service{hash: "to somebody else"}, ErrInvoice, "description hash"},
		"not an invoice":       {service{second: `{"pr":"lnbc1"}`}, ErrInvoice, "bolt11"},
		"no JSON":              {service{first: `<html>`}, ErrService, "JSON"},
		"a redirect":           {service{status: http.StatusFound}, ErrService, "answers 302"},
		"down":                 {service{status: http.StatusBadGateway}, ErrService, "answers 502"},
		"too much":             {service{first: strings.Repeat(" ", maxAnswer+1)}, ErrService, "more than"},
		"amounts out of range": {service{first: `{"tag":"payRequest","minSendable":1e40}`}, ErrService, "JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			pr, err := serve(t, &tt.service).Invoice(t.Context(), "me@example.com", msats)
			if pr != "" || !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%q, %v", pr, err)
			}
		})
	}
}

func TestAddressesThatAreNotAsked(t *testing.T) {
	r := New(Config{Client: &http.Client{Transport: refuseAll{t}}})
	for _, address := range []string{
		"", "@", "me", "@example.com", "me@", "me@localhost", "me@127.0.0.1", "me@[::1]", "me@example.com:8080", "me@example.com/x",
		"me@example.com?x", "m e@example.com", "ME@example.com", "me@Example.com", "../me@example.com", "me/..@example.com", "..@example.com",
		"me@hidden.onion", "me@a..b", "me@-a.b", "me@10.1", "me@example.com@x.y", "me@" + strings.Repeat("a", 64) + ".com", strings.Repeat("a", 250) + "@b.cd",
	} {
		if _, err := r.Invoice(t.Context(), address, msats); !errors.Is(err, payments.ErrAddress) {
			t.Errorf("%q: %v", address, err)
		}
	}
	if _, err := r.Invoice(t.Context(), "me@example.com", -1); !errors.Is(err, payments.ErrAmount) {
		t.Errorf("a negative amount: %v", err)
	}
}

type refuseAll struct{ t *testing.T }

func (r refuseAll) RoundTrip(req *http.Request) (*http.Response, error) {
	r.t.Errorf("asked %s", req.URL)
	return nil, errors.New("nothing is asked")
}

// TestPrivateHostsAreNotReached: the node's own client refuses the address that
// a name resolves to, at the moment of connecting.
func TestPrivateHostsAreNotReached(t *testing.T) {
	client := relay.NewPublicClient(time.Second)
	for _, url := range []string{"https://127.0.0.1/", "https://10.0.0.1/", "https://[::1]/", "https://169.254.169.254/", "https://localhost/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if res, err := client.Do(req); !errors.Is(err, relay.ErrBlockedAddress) {
			t.Errorf("%s: %v, %v", url, res, err)
		}
	}
}

// FuzzInvoice feeds both answers.
func FuzzInvoice(f *testing.F) {
	f.Add(`{"tag":"payRequest","callback":"https://example.com/cb","minSendable":1,"maxSendable":100000,"metadata":"[]"}`, `{"pr":"lnbc1"}`)
	f.Add(`{"status":"ERROR"}`, ``)
	f.Fuzz(func(t *testing.T, first, second string) {
		n := 0
		client := &http.Client{Transport: answers(func(*http.Request) *http.Response {
			rec := httptest.NewRecorder()
			n++
			_, _ = rec.WriteString([]string{first, second}[n-1])
			return rec.Result()
		})}
		if pr, err := New(Config{Client: client}).Invoice(t.Context(), "me@example.com", msats); err == nil {
			if inv, err := bolt11.Decode(pr); err != nil || inv.AmountMsats != msats {
				t.Errorf("believed %q", pr)
			}
		}
	})
}

type answers func(*http.Request) *http.Response

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) { return a(r), nil }
