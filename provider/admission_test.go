package provider_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/markettest"
	"github.com/lightwork-market/lightwork/internal/requirements"
	"github.com/lightwork-market/lightwork/internal/store"
	storesales "github.com/lightwork-market/lightwork/internal/store/sales"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	image  = "sha256:0000000000000000000000000000000000000000000000000000000000000001"
	typed  = `{"sandbox":{"provider":"host","image_digest":"` + image + `"},"commands":[{"cmd":"true"}]}`
	minute = 20_000 // msats
)

// shop is a provider over a real store, with the market, the wallet and the
// agent played by the test.
type shop struct {
	t     *testing.T
	key   *relay.Key
	store *storesales.Store
	sells *provider.Provider
	in    chan nostr.Event
	out   chan nostr.Event // feedback and results, as published

	mu       sync.Mutex
	invoices int
	runs     int
	stored   []nostr.Event // what relays have
}

func openShop(t *testing.T, change func(*provider.Config)) *shop {
	t.Helper()
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	k, err := store.Open(t.Context(), t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, key: key, store: k.Sales("paid-job"), in: make(chan nostr.Event), out: make(chan nostr.Event, 256)}
	cfg := provider.Config{
		Signer: key, Store: s.store, Wallet: s, Market: s, Runner: s, RootSecret: make([]byte, 32), Policy: markettest.Policy(),
		Offers: []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: []receipts.Mode{receipts.ModeHold, receipts.ModeFree}, PerMinuteMsats: minute}},
		Images: provider.Images{HostDigest: image, Registered: func(string) bool { return false }},
	}
	if change != nil {
		change(&cfg)
	}
	p, err := provider.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	s.sells = p
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *shop) Tool(string) string                           { return "worker/count" }
func (s *shop) Relays() []string                             { return []string{"ws://127.0.0.1:1"} }
func (s *shop) BlobURLs(string) []string                     { return nil }
func (s *shop) Upload(context.Context, []byte, string) error { return nil }

func (s *shop) Query(_ context.Context, f nostr.Filter) (found []nostr.Event, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, ev := range s.stored {
		if f.Matches(&ev) {
			found = append(found, ev)
		}
	}
	return found, nil
}

func (s *shop) Listen(ctx context.Context, _ nostr.Filters, ready func(), handle func(nostr.Event)) error {
	ready()
	for {
		select {
		case ev := <-s.in:
			handle(ev)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *shop) Forward(context.Context, string, nostr.Event) provider.Ack { return provider.Ack{} }

func (s *shop) Publish(_ context.Context, ev nostr.Event) []provider.Ack {
	if ev.Kind != 31990 {
		s.out <- ev
	}
	return []provider.Ack{{EventID: ev.ID, Relay: s.Relays()[0], OK: true, At: time.Now()}}
}

func (s *shop) Node(context.Context) (payments.Node, error) {
	return payments.Node{PubKey: "02" + s.key.PublicKey(), Network: payments.Play}, nil
}

func (s *shop) CreateInvoice(_ context.Context, n payments.NewInvoice) (payments.Invoice, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.invoices++
	return payments.Invoice{BOLT11: fmt.Sprint("lnplay", s.invoices), PaymentHash: n.PaymentHash, AmountMsats: n.AmountMsats, State: payments.InvoiceOpen}, nil
}

func (s *shop) LookupInvoice(_ context.Context, h payments.Hash) (payments.Invoice, error) {
	return payments.Invoice{PaymentHash: h, State: payments.InvoiceOpen}, nil
}

func (s *shop) SettleInvoice(context.Context, payments.Preimage) error {
	return errors.New("nothing is held")
}
func (s *shop) CancelInvoice(context.Context, payments.Hash) error { return nil }

func (s *shop) WatchInvoices(ctx context.Context, _ func(payments.Hash)) error {
	<-ctx.Done()
	return ctx.Err()
}

func (s *shop) Run(context.Context, provider.Run) (provider.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runs++
	return provider.Outcome{}, &provider.RunError{Reason: provider.Reason{Code: provider.CodeAgentFailed, Detail: "the test's agent does nothing"}}
}

// request is an honest request, changed by the case, signed by a new buyer.
func (s *shop) request(change func(*nostr.Event)) nostr.Event {
	s.t.Helper()
	key, err := relay.GenerateKey()
	if err != nil {
		s.t.Fatal(err)
	}
	return s.requestOf(key, change)
}

func (s *shop) requestOf(key *relay.Key, change func(*nostr.Event)) nostr.Event {
	s.t.Helper()
	ev := nostr.Event{Kind: 5050, CreatedAt: nostr.Now(), Tags: nostr.Tags{
		{"param", "schema", string(schemas.SandboxRun)}, {"i", typed, "text"}, {"p", s.key.PublicKey()},
	}}
	if change != nil {
		change(&ev)
	}
	if err := key.Sign(context.Background(), &ev); err != nil {
		s.t.Fatal(err)
	}
	return ev
}

// answer sends an event and returns the first feedback on it.
func (s *shop) answer(ev nostr.Event) nostr.Event {
	s.t.Helper()
	s.in <- ev
	for {
		select {
		case got := <-s.out:
			if got.Tags.ContainsAny("e", []string{ev.ID}) {
				return got
			}
		case <-time.After(markettest.Patience):
			s.t.Fatal("no answer")
		}
	}
}

// both makes two changes.
func both(one, other func(*nostr.Event)) func(*nostr.Event) {
	return func(ev *nostr.Event) {
		one(ev)
		other(ev)
	}
}

func replaceTag(name string, tag nostr.Tag) func(*nostr.Event) {
	return func(ev *nostr.Event) {
		for i, t := range ev.Tags {
			if t[0] == name {
				ev.Tags[i] = tag
			}
		}
	}
}

func addTag(tag ...string) func(*nostr.Event) {
	return func(ev *nostr.Event) { ev.Tags = append(ev.Tags, tag) }
}

func TestHonestRequestIsQuoted(t *testing.T) {
	requirements.Covers(t, "OA-1.1")
	s := openShop(t, nil)
	got := s.answer(s.request(addTag("bid", strconv.Itoa(minute))))
	if status := got.Tags.Find("status"); got.Kind != 7000 || status[1] != "payment-required" {
		t.Fatalf("answer %v", got.Tags)
	}
	quote, err := receipts.ParseQuote([]byte(got.Content))
	if err != nil || quote.PriceMsats != minute || quote.Mode != receipts.ModeHold {
		t.Fatalf("quote %+v, %v", quote, err)
	}
	if amount := got.Tags.Find("amount"); amount[1] != strconv.Itoa(minute) || amount[2] != "lnplay1" {
		t.Fatalf("amount %v", amount)
	}
}

// TestInputsOfText: what clients call an input that is text changes nothing.
func TestInputsOfText(t *testing.T) {
	s := openShop(t, nil)
	var hash hashing.Digest
	for _, tag := range []nostr.Tag{{"i", typed, "text"}, {"i", typed}, {"i", typed, ""}, {"i", typed, "prompt"}} {
		got := s.answer(s.request(replaceTag("i", tag)))
		quote, err := receipts.ParseQuote([]byte(got.Content))
		if err != nil {
			t.Fatalf("%v: %v, %v", tag[2:], got.Tags, err)
		}
		if hash == (hashing.Digest{}) {
			hash = quote.JobHash
		}
		if quote.JobHash != hash {
			t.Errorf("%v: job_hash %s, want %s", tag[2:], quote.JobHash, hash)
		}
	}
}

// TestPingsAreAnsweredBesideRefusals: bad requests of strangers do not make a
// provider look dead, nor pings make it mute.
func TestPingsAreAnsweredBesideRefusals(t *testing.T) {
	const all = 10 // of strangers a minute, where a key has one
	ping := func(s *shop) nostr.Event {
		return s.request(func(ev *nostr.Event) { ev.Kind, ev.Tags = 7007, nostr.Tags{{"p", s.key.PublicKey()}} })
	}
	bad := func(s *shop) nostr.Event { return s.request(replaceTag("i", nostr.Tag{"i", "{", "text"})) }
	for name, tt := range map[string]struct {
		flood, then func(*shop) nostr.Event
		status      string
	}{
		"pings after bad requests": {bad, ping, "pong"},
		"bad requests after pings": {ping, bad, "error"},
	} {
		s := openShop(t, func(c *provider.Config) { c.Limits.RefusalsPerMin = 1 })
		for range all {
			s.answer(tt.flood(s))
		}
		if got := s.answer(tt.then(s)).Tags.Find("status"); got[1] != tt.status {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRefusals: each gets a 7000 error with a reason code, no invoice, no run.
func TestRefusals(t *testing.T) {
	requirements.Covers(t, "OA-3.3")
	s := openShop(t, nil)
	input := func(doc string) func(*nostr.Event) { return replaceTag("i", nostr.Tag{"i", doc, "text"}) }
	for name, tt := range map[string]struct {
		change func(*nostr.Event)
		want   string
	}{
		"no schema":   {replaceTag("param", nostr.Tag{"param", "model", "x"}), "names no schema; send one job type"},
		"two schemas": {addTag("param", "job_type", "oa.embedding.v1"), "invalid_input: invalid document: request names two schemas; name one job type"},
		"two, not sold": {func(ev *nostr.Event) {
			replaceTag("param", nostr.Tag{"param", "schema", "oa.embedding.v1"})(ev)
			addTag("param", "job_type", "oa.rerank.v1")(ev)
		}, "unsupported_schema"},
		"two inputs":             {addTag("i", typed, "text"), "invalid_input: invalid document: request has 2 inputs, not one; "},
		"unknown input":          {replaceTag("i", nostr.Tag{"i", typed, "image"}), "invalid_input: invalid document: request input is not of type text; "},
		"unknown schema":         {replaceTag("param", nostr.Tag{"param", "schema", "oa.make_coffee.v1"}), "unsupported_schema"},
		"schema not sold":        {replaceTag("param", nostr.Tag{"param", "schema", "oa.embedding.v1"}), "unsupported_schema"},
		"encrypted":              {addTag("encrypted"), "unsupported_encryption"},
		"content":                {func(ev *nostr.Event) { ev.Content = "secret" }, "unsupported_encryption"},
		"not JSON":               {input(`{`), "invalid_input"},
		"no commands":            {input(`{"sandbox":{"provider":"host","image_digest":"` + image + `"},"commands":[]}`), "invalid_input: commands"},
		"wrong type":             {input(`{"sandbox":{"provider":"host","image_digest":"` + image + `"},"commands":[{"cmd":7}]}`), "commands[0].cmd"},
		"unknown field":          {input(`{"sandbox":{"provider":"host","image_digest":"` + image + `"},"commands":[{"cmd":"true"}],"tip":1}`), "tip"},
		"duplicate key":          {input(`{"commands":[],"commands":[]}`), "invalid_input"},
		"limit too high":         {input(`{"sandbox":{"provider":"host","image_digest":"` + image + `","resources":{"timeout_secs":99999}},"commands":[{"cmd":"true"}]}`), "timeout_secs"},
		"other image":            {input(strings.Replace(typed, "0001\"", "0002\"", 1)), "image_not_available"},
		"docker image":           {input(strings.Replace(typed, "host", "docker", 1)), "image_not_available"},
		"full network":           {input(`{"sandbox":{"provider":"host","image_digest":"` + image + `","network_policy":"full"},"commands":[{"cmd":"true"}]}`), "invalid_input: sandbox.network_policy"},
		"too much memory":        {input(`{"sandbox":{"provider":"host","image_digest":"` + image + `","resources":{"memory_mb":4097}},"commands":[{"cmd":"true"}]}`), "over_resources: at most 4096 MiB"},
		"too many CPUs":          {input(`{"sandbox":{"provider":"host","image_digest":"` + image + `","resources":{"cpus":4.5}},"commands":[{"cmd":"true"}]}`), "over_resources"},
		"bid below price":        {addTag("bid", "19999"), "bid_too_low: the price is 20000"},
		"bid is no number":       {addTag("bid", "lots"), "invalid_input: invalid document: request: tag bid: \"lots\" is no whole number"},
		"bid with a sign":        {addTag("bid", "+100000"), "invalid_input: invalid document: request: tag bid: "},
		"bid with zeros":         {addTag("bid", "0000100000"), "invalid_input: invalid document: request: tag bid: "},
		"bid beyond all amounts": {addTag("bid", "9007199254740993"), "invalid_input: invalid document: request: tag bid: "},
		"bid of nothing":         {addTag("bid"), "invalid_input: invalid document: request: tag bid: "},
		"two bids":               {both(addTag("bid", "100000"), addTag("bid", "1")), "invalid_input: invalid document: request: tag bid: it is there twice"},
		"two modes":              {both(addTag("param", "payment_mode", "hold"), addTag("param", "payment_mode", "prepay")), "request: tag param payment_mode: it is there twice"},
		"a mode of nothing":      {addTag("param", "payment_mode"), "request: tag param payment_mode: it has no value"},
		"two deliveries":         {both(addTag("param", "delivery", "sealed"), addTag("param", "delivery", "plain")), "tag param delivery: it is there twice"},
		"two refunds":            {both(addTag("param", "refund", "a@b.example"), addTag("param", "refund", "c@d.example")), "tag param refund: it is there twice"},
		"for nobody":             {addTag("p"), "invalid_input: invalid document: request: tag p: "},
		"a wide tag":             {addTag(append([]string{"t"}, make([]string, 1001)...)...), "invalid_input: invalid document: event: tag \"t\" has 1002 items, at most 1000"},
		"another document":       {addTag("domain", string(domain.Result)), "invalid_input: invalid document: not the document that is wanted"},
		"two domains":            {both(addTag("domain", string(domain.Request)), addTag("domain", string(domain.Request))), "more than one tag domain"},
		"mode not sold":          {addTag("param", "payment_mode", "postpay"), "payment_mode"},
	} {
		got := s.answer(s.request(tt.change))
		status := got.Tags.Find("status")
		if got.Kind != 7000 || status[1] != "error" || len(status) < 3 || !strings.Contains(status[2], tt.want) {
			t.Errorf("%s: answer %v, want %q", name, status, tt.want)
		}
		if code, _, _ := strings.Cut(status[2], ":"); code == "" || strings.Contains(code, " ") {
			t.Errorf("%s: %q has no code", name, status[2])
		}
	}
	if s.invoices != 0 || s.runs != 0 {
		t.Errorf("%d invoices, %d runs", s.invoices, s.runs)
	}
}

// TestFullNetworkIsSold: where the operator sells it, it is quoted.
func TestFullNetworkIsSold(t *testing.T) {
	s := openShop(t, func(c *provider.Config) { c.Images.FullNetwork = true })
	full := replaceTag("i", nostr.Tag{"i", `{"sandbox":{"provider":"host","image_digest":"` + image + `","network_policy":"full"},"commands":[{"cmd":"true"}]}`, "text"})
	if got := s.answer(s.request(full)).Tags.Find("status"); got[1] != "payment-required" {
		t.Errorf("answer %v", got)
	}
}

// TestExpiresNever: the largest number that fits is no date of the past.
func TestExpiresNever(t *testing.T) {
	s := openShop(t, nil)
	if got := s.answer(s.request(addTag("expiration", "9223372036854775807"))).Tags.Find("status"); got[1] != "payment-required" {
		t.Errorf("answer %v", got)
	}
}

// TestSilence: what is not for us, not timely or known already is not answered.
// An honest request sent after it is, which shows that it was read.
func TestSilence(t *testing.T) {
	s := openShop(t, nil)
	known := s.request(nil)
	s.answer(known)
	refused := s.request(addTag("bid", "1"))
	s.answer(refused)
	ago := func(d time.Duration) func(*nostr.Event) {
		return func(ev *nostr.Event) { ev.CreatedAt = nostr.Timestamp(time.Now().Add(-d).Unix()) }
	}
	for name, ev := range map[string]nostr.Event{
		"for another provider": s.request(replaceTag("p", nostr.Tag{"p", strings.Repeat("a", 64)})),
		"stale":                s.request(ago(2 * time.Hour)),
		"from the future":      s.request(ago(-time.Hour)),
		"expired":              s.request(addTag("expiration", "1000")),
		"expires at nonsense":  s.request(addTag("expiration", "soon")),
		"known":                known,
		"refused before":       refused,
		"by ourselves":         s.requestOf(s.key, replaceTag("p", nostr.Tag{"t", "x"})),
	} {
		s.in <- ev
		honest := s.request(nil)
		s.in <- honest
		for answered := false; !answered; {
			got := <-s.out
			if ev.ID != known.ID && got.Tags.ContainsAny("e", []string{ev.ID}) {
				t.Errorf("%s: answered %v", name, got.Tags)
			}
			answered = got.Tags.ContainsAny("e", []string{honest.ID})
		}
	}
	if want := 9; s.invoices != want { // the known one and eight honest ones
		t.Errorf("%d invoices, want %d", s.invoices, want)
	}
	jobs, err := s.store.Jobs(t.Context(), 0)
	if err != nil || len(jobs) != 9 {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
}

func TestTooManyUnpaid(t *testing.T) {
	s := openShop(t, func(c *provider.Config) { c.Limits.UnpaidPerBuyer = 2 })
	buyer, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"payment-required", "payment-required", "error"} {
		got := s.answer(s.requestOf(buyer, addTag("t", strconv.Itoa(i))))
		if status := got.Tags.Find("status"); status[1] != want || want == "error" && !strings.HasPrefix(status[2], "too_many_unpaid: ") {
			t.Fatalf("request %d: %v", i, status)
		}
	}
	if s.invoices != 2 {
		t.Errorf("%d invoices", s.invoices)
	}
}

// TestOnlyTheBuyerCancels: a deletion by another key stops nothing.
func TestOnlyTheBuyerCancels(t *testing.T) {
	s := openShop(t, nil)
	buyer, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	req := s.requestOf(buyer, nil)
	s.answer(req)
	deletion := func(key *relay.Key) nostr.Event {
		ev := nostr.Event{Kind: 5, CreatedAt: nostr.Now(), Tags: nostr.Tags{{"e", req.ID}, {"k", "5050"}}}
		if err := key.Sign(context.Background(), &ev); err != nil {
			t.Fatal(err)
		}
		return ev
	}
	stranger, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	s.in <- deletion(stranger)
	s.answer(s.request(nil)) // read after it
	if job, err := s.store.Job(t.Context(), req.ID); err != nil || job.State != provider.StateQuoted {
		t.Fatalf("after a stranger's deletion: %s, %v", job.State, err)
	}
}

// TestRunThatFailsIsNotCharged in free mode: an error, no result, no receipt.
func TestRunThatFailsIsNotCharged(t *testing.T) {
	s := openShop(t, nil)
	ev := s.request(addTag("param", "payment_mode", "free"))
	got := s.answer(ev)
	for got.Tags.FindWithValue("status", "error") == nil {
		got = <-s.out
	}
	if why := got.Tags.Find("status")[2]; !strings.HasPrefix(why, "agent_failed: ") {
		t.Errorf("reason %q", why)
	}
	job, err := s.store.Job(t.Context(), ev.ID)
	if err != nil || job.State != provider.StateFailed || job.Result != nil || job.Receipt != nil || s.runs != 1 {
		t.Errorf("job %s, %d runs, %v", job.State, s.runs, err)
	}
}

// TestLimitsThatCannotBeMeant: a configuration with a negative bound is refused
// before anything is built on it.
func TestLimitsThatCannotBeMeant(t *testing.T) {
	for _, l := range []provider.Limits{{Concurrent: -2}, {QueuePerBuyer: -8}, {QuoteTTL: -time.Minute}, {QuoteTTL: 10}, {MemoryMB: -1}} {
		_, err := provider.New(provider.Config{
			Signer: &relay.Key{}, Store: noStore{}, Market: &shop{}, Runner: &markettest.Runner{}, RootSecret: make([]byte, 32), Policy: markettest.Policy(),
			Offers: []provider.Offer{{SchemaID: string(schemas.SandboxRun), Modes: []receipts.Mode{receipts.ModeFree}}}, Limits: l,
		})
		if err == nil || !strings.Contains(err.Error(), "limits: ") {
			t.Errorf("%+v: %v", l, err)
		}
	}
}

type noStore struct{ provider.Store }
