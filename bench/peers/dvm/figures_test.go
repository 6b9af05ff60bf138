package dvm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// figures are of one seller in one round.
type figures struct {
	rate     float64 // jobs a second
	p50, p95 float64 // ms, from sending the request to the checked result
	own      float64 // processor time of the seller and its children, ms a job
	relay    float64 // of the relay
}

func measure(tb testing.TB, w world, b *buyer, s seller, jobs, inFlight int) figures {
	tb.Helper()
	own, relay := s.processor(tb), w.relay.processor(tb)
	took, elapsed := b.buy(tb, s, jobs, inFlight)
	slices.Sort(took)
	perJob := func(d time.Duration) float64 { return ms(d) / float64(jobs) }
	return figures{
		rate: float64(jobs) / elapsed.Seconds(),
		p50:  ms(took[len(took)/2]), p95: ms(took[len(took)*95/100]),
		own: perJob(s.processor(tb) - own), relay: perJob(w.relay.processor(tb) - relay),
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// median is of one column of the rounds.
func median(all []figures, column func(figures) float64) float64 {
	var list []float64
	for _, f := range all {
		list = append(list, column(f))
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// tell prints one line a seller. A benchmark's log has ten lines at most.
func tell(b *testing.B, all []seller, crowd, single map[string][]figures) {
	b.Helper()
	rate := func(f figures) float64 { return f.rate }
	ours := median(crowd[all[0].name], rate)
	var out strings.Builder
	fmt.Fprintf(&out, "\n%13s| %-43s| 1 in flight\n", "", fmt.Sprint(inFlight, " in flight"))
	fmt.Fprintf(&out, "%13s|%s  ours is |%s\n", "", heading, heading)
	for _, s := range all {
		r := median(crowd[s.name], rate)
		fmt.Fprintf(&out, "%-13s|%s %7.2fx |%s\n", s.name, row(crowd[s.name]), ours/r, row(single[s.name]))
		b.ReportMetric(r, s.name+"-jobs/s")
	}
	b.Log(out.String())
}

// heading is of a row: processor times are in ms a job, of the seller and of the relay.
const heading = "jobs/s  p50 ms  p95 ms    own  relay"

func row(rounds []figures) string {
	of := func(column func(figures) float64) float64 { return median(rounds, column) }
	return fmt.Sprintf("%6.0f %7.1f %7.1f %6.2f %6.2f", of(func(f figures) float64 { return f.rate }),
		of(func(f figures) float64 { return f.p50 }), of(func(f figures) float64 { return f.p95 }),
		of(func(f figures) float64 { return f.own }), of(func(f figures) float64 { return f.relay }))
}
