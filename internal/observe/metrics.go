package observe

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/relay"
)

// instruments count events as they happen. Their labels are job types, modes,
// states, reason codes, and the relays and agents of the configuration.
type instruments struct {
	quoted, ended, refused, money, published *prometheus.CounterVec

	phase, runs *prometheus.HistogramVec
	publish     prometheus.Histogram
}

// Labels for which other packages have no name.
const (
	stateReturned = "returned"
	stateOwed     = "owed"
	phaseAll      = "all"
	runOK         = "ok"
	publishedOK   = "ok"
	publishedNot  = "not_taken"
)

// jobBuckets range from an echo to the longest sandbox job, in seconds.
var jobBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

func newInstruments() *instruments {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "lightwork_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "lightwork_" + name, Help: help, Buckets: jobBuckets}, labels)
	}
	m := &instruments{
		quoted:    counter("jobs_quoted_total", "Jobs admitted and quoted.", "schema", "mode"),
		ended:     counter("jobs_ended_total", "Jobs that ended, by state and reason code.", "schema", "mode", "state", "code"),
		refused:   counter("requests_refused_total", "Requests that were not admitted, by reason code.", "code"),
		money:     counter("payments_msats_total", "Msats that were held, settled, returned, or are owed to buyers.", "state"),
		published: counter("published_total", "Relays' answers to events of ours.", "relay", "result"),
		phase:     histogram("job_phase_seconds", "How long jobs waited for payment, queued, ran and were delivered; all is from quote to success.", "phase"),
		runs:      histogram("run_seconds", "Runs of jobs on agents, by outcome.", "schema", "outcome"),
		publish: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "lightwork_publish_seconds", Help: "From publishing an event to enough relays' answers.", Buckets: jobBuckets,
		}),
	}

	for _, state := range []string{string(payments.InvoiceHeld), string(payments.InvoiceSettled), stateReturned, stateOwed} {
		m.money.WithLabelValues(state)
	}
	for _, phase := range phases {
		m.phase.WithLabelValues(phase)
	}
	m.phase.WithLabelValues(phaseAll)
	return m
}

func (m *instruments) all() []prometheus.Collector {
	return []prometheus.Collector{m.quoted, m.ended, m.refused, m.money, m.published, m.phase, m.runs, m.publish}
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("lightwork_"+name, help, labels, nil)
}

// collector exports the state of a node as metrics.
type collector struct {
	node *Node

	build, ready, open, held, spendable, outbox, disk, connected, connects, received, rejected, agentUp, restarts, inflight, offered *prometheus.Desc
}

func newCollector(n *Node) *collector {
	return &collector{
		node:      n,
		build:     desc("build_info", "The running version.", "version"),
		ready:     desc("ready", "1 if a readiness check passes.", "check"),
		open:      desc("jobs_open", "Jobs that have not ended.", "schema", "state"),
		held:      desc("payments_held_msats", "Msats held for jobs that have not ended."),
		spendable: desc("wallet_spendable_msats", "Msats that the wallet can spend; only with observe.wallet_balance."),
		outbox:    desc("outbox_pending", "Events that some relay has yet to confirm."),
		disk:      desc("disk_free_bytes", "Room where the node writes."),
		connected: desc("pool_connected", "1 while a relay is connected.", "relay"),
		connects:  desc("pool_connects_total", "Connections made to a relay.", "relay"),
		received:  desc("pool_events_received_total", "Events of a relay that passed every check.", "relay"),
		rejected:  desc("pool_rejected_total", "Messages and events of a relay that did not.", "relay"),
		agentUp:   desc("agent_up", "1 while an agent runs and answers.", "agent"),
		restarts:  desc("agent_restarts_total", "Restarts of an agent.", "agent"),
		inflight:  desc("agent_calls_inflight", "Calls that an agent has not ended.", "agent"),
		offered:   desc("offer_available", "1 while jobs of a type can be done, 0 while the offer is withdrawn.", "schema"),
	}
}

// Describe sends nothing, because the labels are known only at a scrape.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	s := c.node.State()
	gauge(c.build, 1, s.Version)
	for _, check := range s.Checks {
		gauge(c.ready, oneIf(check.OK), check.Name)
	}

	open := map[[2]string]float64{}
	for _, o := range c.node.cfg.Board.offers {
		for state := range phases {
			open[[2]string{o.SchemaID, string(state)}] = 0
		}
	}

	for _, j := range s.Open {
		open[[2]string{j.Schema, string(j.State)}]++
	}
	for key, n := range open {
		gauge(c.open, n, key[0], key[1])
	}
	gauge(c.held, float64(s.HeldMsats))
	if s.SpendableMsats != nil {
		gauge(c.spendable, float64(*s.SpendableMsats))
	}
	gauge(c.outbox, float64(s.Outbox))
	gauge(c.disk, float64(s.DiskFreeBytes))

	for _, r := range s.Relays {
		gauge(c.connected, oneIf(r.State == relay.StateConnected), r.URL)
		counter(c.connects, float64(r.Connects), r.URL)
		counter(c.received, float64(r.Received), r.URL)
		counter(c.rejected, float64(r.Rejected), r.URL)
	}

	for _, a := range s.Agents {
		gauge(c.agentUp, oneIf(a.State == supervisor.StateRunning), a.ID)
		counter(c.restarts, float64(a.Restarts), a.ID)
		gauge(c.inflight, float64(a.Inflight), a.ID)
	}

	for _, o := range s.Offers {
		gauge(c.offered, oneIf(o.Withdrawn == ""), o.Schema)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
