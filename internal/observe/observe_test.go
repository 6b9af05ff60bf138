package observe

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// store has the jobs of an earlier life.
type store struct {
	provider.Store
	jobs []provider.Job
}

func (s *store) OpenJobs(context.Context) (ids []string, err error) {
	for _, j := range s.jobs {
		ids = append(ids, j.RequestID)
	}
	return ids, nil
}

func (s *store) Job(_ context.Context, id string) (provider.Job, error) {
	for _, j := range s.jobs {
		if j.RequestID == id {
			return j, nil
		}
	}
	return provider.Job{}, provider.ErrNotFound
}

func job(id string, mode receipts.Mode) provider.Job {
	return provider.Job{RequestID: id, Buyer: "a key", SchemaID: "oa.x.v1", Mode: mode, Charge: provider.Charge{PriceMsats: 10}, State: provider.StateQuoted, AddedAt: time.Now()}
}

func pay(state payments.InvoiceState) provider.Payment {
	return provider.Payment{State: state, PaidMsats: 10}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestBoard takes a job in each mode through its life and checks the sums.
func TestBoard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBoard()
		for _, id := range []string{"held", "lost", "prepaid", "owed", "free"} {
			mode := map[string]receipts.Mode{"held": receipts.ModeHold, "lost": receipts.ModeHold, "free": receipts.ModeFree}[id]
			if mode == "" {
				mode = receipts.ModePrepay
			}
			b.Event(provider.AdmissionEvent{Job: job(id, mode)})
		}
		time.Sleep(2 * time.Second) // until they pay, of the test's own clock
		for id, state := range map[string]payments.InvoiceState{"held": payments.InvoiceHeld, "lost": payments.InvoiceHeld, "prepaid": payments.InvoiceSettled, "owed": payments.InvoiceSettled} {
			b.Event(provider.PaymentEvent{RequestID: id, Payment: pay(state)})
		}
		for _, id := range []string{"held", "prepaid", "free"} {
			b.Event(provider.StateEvent{RequestID: id, State: provider.StateRunning})
			b.Event(provider.StateEvent{RequestID: id, State: provider.StateDelivering})
		}
		if open := b.Open(); len(open) != 5 {
			t.Errorf("%d open, want 5", len(open))
		}

		for _, e := range []provider.JobEvent{
			provider.SettlementEvent{RequestID: "held", Purpose: receipts.PurposeResult, PaidMsats: 10},
			provider.SettlementEvent{RequestID: "prepaid", Purpose: receipts.PurposeResult, PaidMsats: 10, ExcessMsats: 100}, // more came on the chain than the price
			provider.EndEvent{RequestID: "free", State: provider.StateSucceeded},
			provider.SettlementEvent{RequestID: "lost", Purpose: receipts.PurposeEngagement, PaidMsats: 1000}, // its fee, which is owed as the attempt fails
			provider.EndEvent{RequestID: "lost", State: provider.StateFailed, Reason: provider.Reason{Code: provider.CodeAgentFailed}, Owed: &provider.Credit{Msats: 1000}},
			provider.DebtEvent{RequestID: "gone", Msats: 10_000},
			provider.EndEvent{RequestID: "owed", State: provider.StateFailed, Reason: provider.Reason{Code: provider.CodeAgentFailed}, Owed: &provider.Credit{Msats: 10}},
			provider.RefusalEvent{Reason: provider.Reason{Code: provider.CodeBidTooLow}},
		} {
			b.Event(e)
		}
		want := Totals{Quoted: 5, Refused: 1, Succeeded: 3, Failed: 2, SettledMsats: 1030, ReturnedMsats: 10, OwedMsats: 11_110}
		if diff := cmp.Diff(want, b.Totals()); diff != "" {
			t.Errorf("totals:\n%s", diff)
		}
		if open := b.Open(); len(open) != 0 {
			t.Errorf("open: %v", open)
		}
		expect := `
			# HELP lightwork_payments_msats_total Msats that were held, settled, returned, or are owed to buyers.
			# TYPE lightwork_payments_msats_total counter
			lightwork_payments_msats_total{state="held"} 20
			lightwork_payments_msats_total{state="owed"} 11110
			lightwork_payments_msats_total{state="returned"} 10
			lightwork_payments_msats_total{state="settled"} 1030
		`
		check(t, testutil.CollectAndCompare(b.m.money, strings.NewReader(strings.ReplaceAll(expect, "\t", ""))))
		if n := testutil.CollectAndCount(b.m.ended); n != 5 {
			t.Errorf("%d series of ended jobs", n)
		}
	})
}

// TestSeriesFromTheStart: an alert sees the first event of a life, because its
// series was there before at 0.
func TestSeriesFromTheStart(t *testing.T) {
	b := NewBoard()
	b.Offer([]provider.Offer{{SchemaID: "oa.x.v1", Modes: []receipts.Mode{receipts.ModeHold, receipts.ModePrepay}}}, []string{"ws://r"})
	n := (&parts{}).node(t)
	n.cfg.Board = b
	code, text := get(t, Handler(n), "127.0.0.1", "/metrics")
	if code != http.StatusOK {
		t.Fatal(code)
	}
	for _, series := range []string{
		`payments_msats_total{state="held"}`, `payments_msats_total{state="settled"}`, `payments_msats_total{state="returned"}`, `payments_msats_total{state="owed"}`,
		`jobs_quoted_total{mode="hold",schema="oa.x.v1"}`, `requests_refused_total{code="over_capacity"}`,
		`jobs_ended_total{code="",mode="prepay",schema="oa.x.v1",state="succeeded"}`, `jobs_ended_total{code="agent_failed",mode="hold",schema="oa.x.v1",state="failed"}`,
		`jobs_open{schema="oa.x.v1",state="paid"}`, `published_total{relay="ws://r",result="not_taken"}`,
		`job_phase_seconds_count{phase="all"}`, `job_phase_seconds_count{phase="queue"}`, `run_seconds_count{outcome="ok",schema="oa.x.v1"}`,
	} {
		if !strings.Contains(text, "\nlightwork_"+series+" 0\n") {
			t.Errorf("%s is not there at 0", series)
		}
	}
}

// TestSeed: jobs of an earlier life are open, and what is held for them is held.
func TestSeed(t *testing.T) {
	b, j := NewBoard(), job("old", receipts.ModeHold)
	p := pay(payments.InvoiceHeld)
	j.State, j.Payment = provider.StatePaid, &p
	check(t, b.Seed(t.Context(), &store{jobs: []provider.Job{j}}))
	b.Event(provider.EndEvent{RequestID: "old", State: provider.StateCanceled})
	if diff := cmp.Diff(Totals{Canceled: 1, ReturnedMsats: 10}, b.Totals()); diff != "" {
		t.Errorf("totals:\n%s", diff)
	}
}

// node is one whose parts the test breaks.
type parts struct {
	relay     relay.State
	agent     supervisor.State
	wallet    error
	withdrawn string
}

func (p *parts) node(t *testing.T) *Node {
	n := NewNode(Config{
		Version: "v", PubKey: "key", Dir: t.TempDir(), Board: NewBoard(),
		Offers: func() []Offer { return []Offer{{Schema: "oa.a.v1"}, {Schema: "oa.b.v1", Withdrawn: p.withdrawn}} },
		Relays: func() []relay.Status { return []relay.Status{{URL: "ws://r", State: p.relay, Error: "gone"}} },
		Agents: func() []supervisor.AgentStatus { return []supervisor.AgentStatus{{ID: "a", State: p.agent}} },
		Outbox: func(context.Context) (int, error) { return 3, nil },
		Wallet: func(context.Context) error { return p.wallet },
		Signer: func() []relay.Status { return []relay.Status{{URL: "ws://s", State: p.relay}} },
	})
	n.probe(t.Context())
	return n
}

func get(t *testing.T, h http.Handler, host, path string) (int, string) {
	t.Helper()
	req := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, req)
	return rec.Code, rec.Body.String()
}

func TestReady(t *testing.T) {
	good := parts{relay: relay.StateConnected, agent: supervisor.StateRunning}
	for _, tt := range []struct {
		name   string
		change func(*parts)
		bad    string
	}{
		{"all well", func(*parts) {}, ""},
		{"no relay", func(p *parts) { p.relay = relay.StateWaiting }, "relays,signer"},
		{"offer withdrawn", func(p *parts) { p.withdrawn = "its agent is down" }, "offers"},
		{"wallet away", func(p *parts) { p.wallet = errors.New("connection refused") }, "wallet"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := good
			tt.change(&p)
			code, body := get(t, Handler(p.node(t)), "127.0.0.1", "/readyz")
			var said struct {
				Ready  bool
				Checks []Check
			}
			check(t, json.Unmarshal([]byte(body), &said))
			var bad []string
			for _, c := range said.Checks {
				if !c.OK {
					bad = append(bad, c.Name)
				}
			}
			if got := strings.Join(bad, ","); got != tt.bad || said.Ready != (tt.bad == "") || (code == http.StatusOK) != said.Ready {
				t.Errorf("%d, not ready for %q, want %q", code, got, tt.bad)
			}
		})
	}
}

// TestNotYetAsked: before the wallet has answered the node is not ready.
func TestNotYetAsked(t *testing.T) {
	n := (&parts{relay: relay.StateConnected, agent: supervisor.StateRunning}).node(t)
	n = NewNode(n.cfg)
	if n.State().Ready {
		t.Error("ready before the wallet was asked")
	}
}

// TestWithdrawnOffer: who scrapes sees each offer, and who looks why one is away.
func TestWithdrawnOffer(t *testing.T) {
	p := parts{relay: relay.StateConnected, agent: supervisor.StateRunning, withdrawn: "its agent is down"}
	h := Handler(p.node(t))
	for path, wants := range map[string][]string{
		"/metrics": {`lightwork_offer_available{schema="oa.a.v1"} 1`, `lightwork_offer_available{schema="oa.b.v1"} 0`, `lightwork_ready{check="offers"} 0`},
		"/state":   {`"withdrawn": "its agent is down"`},
		"/readyz":  {`oa.b.v1 is withdrawn: its agent is down`},
	} {
		_, body := get(t, h, "127.0.0.1", path)
		for _, want := range wants {
			if !strings.Contains(body, want) {
				t.Errorf("%s: no %s in %s", path, want, body)
			}
		}
	}
	for raw, want := range map[string]string{
		"failed to dial: dial tcp 127.0.0.1:1: connect: connection refused": "connection refused",
		"gone": "gone", "": "",
	} {
		if got := cause(raw); got != want {
			t.Errorf("cause of %q: %q, want %q", raw, got, want)
		}
	}
}

func TestPages(t *testing.T) {
	h := Handler((&parts{relay: relay.StateConnected, agent: supervisor.StateRunning}).node(t))
	for path, want := range map[string]string{
		"/metrics": "lightwork_outbox_pending 3", "/healthz": `"ok": true`, "/state": `"outbox_pending": 3`,
	} {
		if code, body := get(t, h, "localhost:1", path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	// A name that an attacker's page made point at this machine.
	if code, _ := get(t, h, "evil.example.com", "/state"); code != http.StatusForbidden {
		t.Errorf("by another name: %d", code)
	}
	if _, err := testutil.CollectAndLint(newCollector((&parts{}).node(t))); err != nil {
		t.Error(err)
	}
}

func TestMetricNames(t *testing.T) {
	for _, c := range NewBoard().m.all() {
		problems, err := testutil.CollectAndLint(c)
		if err != nil || len(problems) > 0 {
			t.Errorf("%v %v", problems, err)
		}
	}
	problems, err := testutil.CollectAndLint(newCollector((&parts{relay: relay.StateConnected, agent: supervisor.StateRunning}).node(t)))
	if err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
}

func TestServe(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	check(t, err)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- Serve(ctx, Handler((&parts{}).node(t)), slog.New(slog.DiscardHandler), ln)
	}()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", ln.Addr().String())
	}}}
	resp, err := client.Get("http://localhost/healthz")
	check(t, err)
	_, _ = io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	stop()
	check(t, <-done)
}

// TestRuns counts runs by how they ended.
func TestRuns(t *testing.T) {
	b := NewBoard()
	for _, err := range []error{nil, &provider.RunError{Reason: provider.Reason{Code: provider.CodeDeadline}}, errors.New("text of an agent")} {
		b.Event(provider.RunEvent{SchemaID: "oa.x.v1", Err: err})
	}
	if n := testutil.CollectAndCount(b.m.runs); n != 3 {
		t.Errorf("%d series, want 3", n)
	}
}
