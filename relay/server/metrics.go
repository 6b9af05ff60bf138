package server

import (
	"context"
	"os"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// scrapeTimeout bounds how long a scrape waits for the database.
const scrapeTimeout = 5 * time.Second

// metrics are the relay's counters. No label has a value that a client can choose, or
// their number would be unbounded: events are counted by class of kind, refusals by
// their machine-readable prefix.
type metrics struct {
	events     *prometheus.CounterVec
	duplicates prometheus.Counter
	delivered  prometheus.Counter
	refused    *prometheus.CounterVec
	dropped    *prometheus.CounterVec
	slowed     prometheus.Counter
	lookups    prometheus.Counter
	removed    *prometheus.CounterVec
	queries    *prometheus.HistogramVec
	commits    prometheus.Histogram
}

func newMetrics() *metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lightwork_relay_" + name, Help: help}, labels)
	}
	buckets := []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2}
	return &metrics{
		events:     counter("events_total", "Events accepted, by class of their kind.", "class"),
		duplicates: counter("duplicates_total", "Events that were there already.").WithLabelValues(),
		delivered:  counter("deliveries_total", "Live events handed to subscriptions.").WithLabelValues(),
		refused:    counter("refused_total", "Messages refused, by answer and machine-readable reason.", "answer", "reason"),
		dropped:    counter("dropped_clients_total", "Clients dropped, by reason.", "reason"),
		slowed:     counter("slowed_seconds_total", "Time for which clients were not read from because they were over their rate.").WithLabelValues(),
		lookups:    counter("filter_lookups_total", "Look-ups that it took to try live events on the filters of subscriptions.").WithLabelValues(),
		removed:    counter("removed_events_total", "Stored events removed by the relay itself, by cause.", "cause"),
		queries: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "lightwork_relay_query_seconds", Help: "Database time of a REQ or COUNT.", Buckets: buckets,
		}, []string{"message"}),
		commits: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lightwork_relay_commit_seconds", Help: "Duration of a durable commit of events.", Buckets: buckets,
		}),
	}
}

// accepted counts an event of the kind.
func (m *metrics) accepted(kind int) { m.events.WithLabelValues(kindClass(kind)).Inc() }

func kindClass(kind int) string {
	switch {
	case kind == nostr.KindDeletion:
		return "deletion"
	case nostr.IsReplaceableKind(kind):
		return "replaceable"
	case nostr.IsEphemeralKind(kind):
		return "ephemeral"
	case nostr.IsAddressableKind(kind):
		return "addressable"
	}
	return "regular"
}

// refuse counts an answer that begins with one of the machine-readable prefixes.
func (m *metrics) refuse(answer, text string) {
	reason, _, found := strings.Cut(text, ": ")
	if !found {
		reason = "other"
	}
	m.refused.WithLabelValues(answer, reason).Inc()
}

// collector adds the gauges that are read at each scrape.
type collector struct {
	srv    *Server
	gauges map[string]*prometheus.Desc
}

// Collector returns the relay's metrics, all named lightwork_relay_*. It may be
// registered once, and collected while the relay runs and afterwards. Values from
// the database are left out if it does not answer within 5 s.
func (s *Server) Collector() prometheus.Collector {
	gauges := map[string]*prometheus.Desc{}
	for name, help := range map[string]string{
		"connections":      "Open websockets.",
		"subscriptions":    "Open subscriptions of all clients.",
		"regular_bytes":    "Estimated size of stored regular events, which make room for new ones.",
		"standing_bytes":   "Estimated size of stored replaceable and addressable events.",
		"blob_bytes":       "Size of all blobs, running uploads included.",
		"event_room_bytes": "What all events may take: EventTotalBytes.",
		"database_bytes":   "Size of the relay's database file and its log.",
	} {
		gauges[name] = prometheus.NewDesc("lightwork_relay_"+name, help, nil, nil)
	}

	return collector{s, gauges}
}

func (c collector) instruments() []prometheus.Collector {
	m := c.srv.metrics
	return []prometheus.Collector{m.events, m.duplicates, m.delivered, m.refused, m.dropped, m.slowed, m.lookups, m.removed, m.queries, m.commits}
}

// Describe implements prometheus.Collector.
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, i := range c.instruments() {
		i.Describe(out)
	}
	for _, d := range c.gauges {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(out chan<- prometheus.Metric) {
	for _, i := range c.instruments() {
		i.Collect(out)
	}
	for name, value := range c.srv.gauges() {
		out <- prometheus.MustNewConstMetric(c.gauges[name], prometheus.GaugeValue, float64(value))
	}
}

// gauges reads the values that are not counted continuously.
func (s *Server) gauges() map[string]int64 {
	values := map[string]int64{
		"connections":      int64(s.slots.inUse()),
		"subscriptions":    s.index.len(),
		"event_room_bytes": s.cfg.Limits.EventTotalBytes,
		"blob_bytes":       s.blobs.room.used(),
	}

	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.store.db.Path() + suffix); err == nil {
			values["database_bytes"] += info.Size()
		}
	}

	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()

	var regular, standing int64
	err := s.store.db.View(ctx, func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT regular, standing FROM usage_total").Scan(&regular, &standing)
	})
	if err == nil {
		values["regular_bytes"], values["standing_bytes"] = regular, standing
	}
	return values
}
