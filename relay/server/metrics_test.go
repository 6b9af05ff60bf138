package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestMetrics(t *testing.T) {
	r := start(t, Config{})
	reg := prometheus.NewPedanticRegistry()
	if err := reg.Register(r.srv.Collector()); err != nil {
		t.Fatal(err)
	}
	p := r.dial()
	p.send(`["REQ","a",{"kinds":[20001],"limit":0}]`)
	p.expect("EOSE a")
	again := note(t, "x", 1)
	p.put(again)
	p.put(note(t, "y", 1))
	p.publish(again)
	p.expect("OK true duplicate: already have this event")
	for _, kind := range []int{0, 30000, 5} {
		p.put(sign(t, aliceSecret, nostr.Event{Kind: kind}))
	}
	p.publish(sign(t, aliceSecret, nostr.Event{Kind: 20001, Content: "live"}))
	p.expect("EVENT a live")
	p.expect("OK true ")
	p.publish(note(t, "old", 1<<30))
	p.expect("OK false invalid: created_at is too long ago")
	p.send(`["REQ","dm",{"kinds":[4]}]`)
	p.challenged()
	p.expect("CLOSED dm auth-required: events of kind 4 are for their author and those whom they name")
	p.count(`{}`)
	p.send("{")
	p.expect("NOTICE invalid: not a message of the protocol")

	want := `
# HELP lightwork_relay_connections Open websockets.
# TYPE lightwork_relay_connections gauge
lightwork_relay_connections 1
# HELP lightwork_relay_deliveries_total Live events handed to subscriptions.
# TYPE lightwork_relay_deliveries_total counter
lightwork_relay_deliveries_total 1
# HELP lightwork_relay_duplicates_total Events that were there already.
# TYPE lightwork_relay_duplicates_total counter
lightwork_relay_duplicates_total 1
# HELP lightwork_relay_events_total Events accepted, by class of their kind.
# TYPE lightwork_relay_events_total counter
lightwork_relay_events_total{class="addressable"} 1
lightwork_relay_events_total{class="deletion"} 1
lightwork_relay_events_total{class="ephemeral"} 1
lightwork_relay_events_total{class="regular"} 2
lightwork_relay_events_total{class="replaceable"} 1
# HELP lightwork_relay_refused_total Messages refused, by answer and machine-readable reason.
# TYPE lightwork_relay_refused_total counter
lightwork_relay_refused_total{answer="CLOSED",reason="auth-required"} 1
lightwork_relay_refused_total{answer="NOTICE",reason="invalid"} 1
lightwork_relay_refused_total{answer="OK",reason="invalid"} 1
# HELP lightwork_relay_subscriptions Open subscriptions of all clients.
# TYPE lightwork_relay_subscriptions gauge
lightwork_relay_subscriptions 1
`
	names := []string{"connections", "deliveries_total", "duplicates_total", "events_total", "refused_total", "subscriptions"}
	for i := range names {
		names[i] = "lightwork_relay_" + names[i]
	}
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), names...); err != nil {
		t.Error(err)
	}
	got := map[string]float64{}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			got[strings.TrimPrefix(f.GetName(), "lightwork_relay_")] += m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	if got["query_seconds"] != 2 || got["commit_seconds"] == 0 || got["database_bytes"] == 0 || got["regular_bytes"] == 0 || got["standing_bytes"] == 0 {
		t.Errorf("gathered %v", got)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("names: %v, %v", problems, err)
	}
	r.stop()
	if _, err := reg.Gather(); err != nil { // without the store
		t.Error(err)
	}
}

func TestKindClasses(t *testing.T) {
	for kind, want := range map[int]string{0: "replaceable", 1: "regular", 5: "deletion", 10002: "replaceable", 22242: "ephemeral", 31990: "addressable", 50000: "regular"} {
		if got := kindClass(kind); got != want {
			t.Errorf("%s: %s, want %s", fmt.Sprint(kind), got, want)
		}
	}
}
