package nwc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/payments"
)

// exampleURI is the one of NIP-47.
const exampleURI = "nostr+walletconnect://b889ff5b1513b641e2a139f661a661364979c5beee91842f8f0ef42ab558e9d4?relay=wss%3A%2F%2Frelay.damus.io&secret=71a8c14c1407c113601079c4302dab36460f0ccd0ad506f1f2dc73b5100e4f3c"

func TestParseURI(t *testing.T) {
	c, err := ParseURI(" " + exampleURI + "&lud16=a%40b.example\n")
	if err != nil {
		t.Fatal(err)
	}
	if c.Wallet != "b889ff5b1513b641e2a139f661a661364979c5beee91842f8f0ef42ab558e9d4" || !slices.Equal(c.Relays, []string{"wss://relay.damus.io"}) ||
		c.Secret.Hex() != exampleURI[len(exampleURI)-64:] || c.LUD16 != "a@b.example" {
		t.Errorf("%v, %q", c, c.LUD16)
	}
	again, err := ParseURI(c.URI())
	if err != nil || again.URI() != c.URI() {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := ParseURI(strings.Replace(exampleURI, "//", "", 1)); err != nil {
		t.Errorf("without slashes: %v", err)
	}
	secret := c.Secret.Hex()
	wallet := c.Wallet
	for name, bad := range map[string]string{
		"empty":              "",
		"another scheme":     strings.Replace(exampleURI, "nostr+", "nostr", 1),
		"no secret":          strings.Replace(exampleURI, "secret", "secre", 1),
		"two secrets":        exampleURI + "&secret=" + secret,
		"short secret":       exampleURI[:len(exampleURI)-2],
		"zero secret":        strings.Replace(exampleURI, secret, strings.Repeat("0", 64), 1),
		"npub as wallet":     strings.Replace(exampleURI, wallet, "npub1xyz", 1),
		"wallet in capitals": strings.Replace(exampleURI, wallet, strings.ToUpper(wallet), 1),
		"wallet is no point": strings.Replace(exampleURI, wallet, strings.Repeat("f", 64), 1),
		"no relay":           strings.Replace(exampleURI, "relay=", "rely=", 1),
		"http relay":         strings.Replace(exampleURI, "wss%3A", "https%3A", 1),
		"relay with login":   strings.Replace(exampleURI, "%2F%2Frelay", "%2F%2Fu%3Ap%40relay", 1),
		"nine relays":        exampleURI + strings.Repeat("&relay=ws%3A%2F%2Fa", 8),
		"bad escape":         exampleURI + "&x=%zz",
		"too long":           exampleURI + "&x=" + strings.Repeat("x", maxURILength),
		"its own key":        strings.Replace(exampleURI, wallet, c.Secret.PublicKey(), 1),
	} {
		_, err := ParseURI(bad)
		if !errors.Is(err, ErrURI) {
			t.Errorf("%s: %v", name, err)
		} else if strings.Contains(err.Error(), secret[:60]) {
			t.Errorf("%s: the error repeats the secret: %v", name, err)
		}
	}
}

// TestSecretsDoNotPrint: nor inside other structs, nor in JSON.
func TestSecretsDoNotPrint(t *testing.T) {
	c, err := ParseURI(exampleURI)
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{Connection: c}
	var b bytes.Buffer
	for _, v := range []any{c, &c, c.Secret, &c.Secret, cfg, &cfg, App{Wallet: c.Secret}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x"} {
			fmt.Fprintf(&b, verb+"\n", v)
		}
		doc, _ := json.Marshal(v)
		b.Write(doc)
		slog.New(slog.NewTextHandler(&b, nil)).Info("x", "v", v)
		slog.New(slog.NewJSONHandler(&b, nil)).Info("x", "v", v)
	}
	for _, leak := range []string{c.Secret.Hex(), c.Secret.Hex()[:16]} {
		if strings.Contains(b.String(), leak) {
			t.Errorf("the secret is in %s", b.String())
		}
	}
}

func TestChannel(t *testing.T) {
	a, b := mustSecret(t), mustSecret(t)
	ours, err := newChannel(a, b.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := newChannel(b, a.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Scheme{NIP44, NIP04} {
		content, err := ours.seal(s, []byte(`{"a":1}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := theirs.open(s, content); err != nil || string(got) != `{"a":1}` {
			t.Errorf("%s: %q, %v", s, got, err)
		}
		for name, bad := range map[string]string{
			"empty": "", "text": "hello", "no iv": "AAAAAAAAAAAAAAAAAAAAAA==", "short iv": "AAAAAAAAAAAAAAAAAAAAAA==?iv=AAAA",
			"no block": "AAAA?iv=AAAAAAAAAAAAAAAAAAAAAA==", "no body": "?iv=AAAAAAAAAAAAAAAAAAAAAA==", "long": strings.Repeat("A", maxContent+1),
		} {
			if got, err := theirs.open(s, bad); !errors.Is(err, errSealed) {
				t.Errorf("%s %s: %q, %v", s, name, got, err)
			}
		}
	}
	if _, err := ours.seal(NIP44, make([]byte, 70_000)); err == nil {
		t.Error("more than NIP-44 holds is sealed")
	}
	if _, err := newChannel(a, strings.Repeat("f", 64)); err == nil {
		t.Error("a channel to no key")
	}
}

func mustSecret(t testing.TB) Secret {
	t.Helper()
	s, err := NewSecret()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseInfo(t *testing.T) {
	info, err := parseInfo(&nostr.Event{Content: "pay_invoice,lookup_invoice get_info", Tags: nostr.Tags{{"x"}, {"notifications", "payment_sent"}}})
	if err != nil || info.Encryption != NIP04 || !info.CanPay() || info.CanHold() || !slices.Equal(info.Notifications, []string{"payment_sent"}) {
		t.Errorf("%+v, %v", info, err)
	}
	for name, ev := range map[string]nostr.Event{
		"long":       {Content: strings.Repeat("a", maxInfoBytes+1)},
		"many words": {Content: strings.Repeat("a ", maxWords+1)},
		"long tag":   {Tags: nostr.Tags{{"encryption", strings.Repeat("a", maxInfoBytes+1)}}},
	} {
		if _, err := parseInfo(&ev); !errors.Is(err, ErrAnswer) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestErrorsTravel: what our service words, our client reads.
func TestErrorsTravel(t *testing.T) {
	for _, r := range reasons[:len(reasons)-1] {
		w := refusal(fmt.Errorf("secret details: %w", r.kind))
		if strings.Contains(w.Message, "secret") {
			t.Errorf("%v goes out as %+v", r.kind, w)
		}
		if err := asError(PayInvoice, w); !errors.Is(err, r.kind) {
			t.Errorf("%v arrives as %v", r.kind, err)
		}
	}
	if w := refusal(errors.New("secret details")); w.Code != string(CodeInternal) || strings.Contains(w.Message, "secret") {
		t.Errorf("%+v", w)
	}
	// Our own wallet's credential is not the app's.
	if w := refusal(payments.ErrUnauthorized); w.Code != string(CodeInternal) {
		t.Errorf("%+v", w)
	}
	e := asError(PayInvoice, &wireError{Code: "X\x1b[2J", Message: strings.Repeat("\u202ea", 500)})
	if strings.ContainsAny(e.Error(), "\x1b\u202e") || len(e.Error()) > 400 {
		t.Errorf("%q", e.Error())
	}
}

func FuzzParseURI(f *testing.F) {
	f.Add(exampleURI)
	f.Add("nostr+walletconnect:x?relay=ws://a&secret=1")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseURI(text)
		if err != nil {
			return
		}
		again, err := ParseURI(c.URI())
		if err != nil || again.URI() != c.URI() {
			t.Errorf("%q: %v", text, err)
		}
	})
}

func FuzzAnswers(f *testing.F) {
	for _, s := range []string{
		`{"result_type":"pay_invoice","result":{"preimage":"00","fees_paid":1}}`, `{"result_type":"pay_invoice","error":{"code":"X","message":"y","reason":"expired"}}`,
		`{"notification_type":"payment_received","notification":{"payment_hash":"00","amount":1e3}}`,
		`{"method":"pay_invoice","params":{"invoice":"lnbc1","amount":1}}`, `{"result_type":"lookup_invoice","result":{"transactions":[{}]}}`, `[[[[`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if result, err := parseResponse(doc, PayInvoice); err == nil {
			var r payResult
			_ = decodeResult(result, &r)
			if _, ok := proof(r.Preimage, payments.Hash{}); ok {
				t.Error("a preimage of the zero hash")
			}
			var x transaction
			if decodeResult(result, &x) == nil && x.check() == nil {
				if p := payment(x, payments.Hash{1}); p.State == payments.PaymentSucceeded {
					t.Errorf("%+v", p)
				}
			}
		} else if !errors.Is(err, ErrAnswer) && errors.Unwrap(err) == nil {
			t.Errorf("an error that stands for nothing: %v", err)
		}
		_, _, _ = parseNotification(doc)
		if r, err := parseRequest(doc); err == nil {
			var p invoiceParams
			if decodeParams(r.Params, &p) == nil {
				if n, err := newInvoice(p); err == nil && n.Expiry > maxExpiry {
					t.Errorf("expiry %v", n.Expiry)
				}
			}
		}
	})
}

func FuzzOpen(f *testing.F) {
	a, b := mustSecret(f), mustSecret(f)
	c, err := newChannel(a, b.PublicKey())
	if err != nil {
		f.Fatal(err)
	}
	f.Add("AAAAAAAAAAAAAAAAAAAAAA==?iv=AAAAAAAAAAAAAAAAAAAAAA==")
	f.Add(strings.Repeat("A", 132))
	f.Fuzz(func(_ *testing.T, content string) {
		_, _ = c.open(NIP04, content)
		_, _ = c.open(NIP44, content)
	})
}
