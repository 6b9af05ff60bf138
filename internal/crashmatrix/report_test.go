//go:build lnd

package crashmatrix

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// rail is a column of the table: how a job is paid for.
type rail string

const (
	hold    rail = "hold" // on lnd, as the next two
	prepay  rail = "prepay"
	postpay rail = "postpay"
	overNWC rail = "nwc"   // the buyer's wallet, hold
	inNotes rail = "cashu" // hold
	onChain rail = "chain" // prepay
)

var rails = []rail{hold, prepay, postpay, overNWC, inNotes, onChain}

// ok is the result of a cell that is green.
const ok = "ok"

// outcome is how a cell ended.
type outcome struct {
	cell
	result string
	took   time.Duration
}

// report is all that is to be played, in order.
type report struct{ rows []*outcome }

// expect adds cells that are to be played.
func (r *report) expect(cells []cell) []*outcome {
	from := len(r.rows)
	for _, c := range cells {
		r.rows = append(r.rows, &outcome{cell: c, result: "not played"})
	}
	return r.rows[from:]
}

// print prints the table, and fails the test if a cell is missing in it or the
// environment named none.
func (r *report) print(t *testing.T) {
	t.Helper()
	if len(r.rows) == 0 {
		t.Fatalf("%s=%q names no cell", envAll, os.Getenv(envAll))
	}
	fmt.Printf("\nPOINT  RAIL     WAY      TIME  RESULT      after...\n")
	var green int
	var took time.Duration
	for _, o := range r.rows {
		fmt.Printf("%-6s %-8s %-5s %6.1f s  %-10s  %s\n", o.point, o.rail, o.way, o.took.Seconds(), o.result, o.what)
		took += o.took
		if o.result == ok {
			green++
		}
	}
	if os.Getenv(envAll) == "all" {
		r.summary(t)
	}
	fmt.Printf("\n%d cells in %.1f minutes, %d not green\n\n", len(r.rows), took.Minutes(), len(r.rows)-green)
}

// summary is a line for each point and a column for each rail. Every place is
// played, or says why it is not.
func (r *report) summary(t *testing.T) {
	t.Helper()
	var reasons []string
	fmt.Printf("\n%-6s", "")
	for _, rail := range rails {
		fmt.Printf(" %-8s", rail)
	}
	for _, point := range points() {
		fmt.Printf("\n%-6s", point)
		for _, rail := range rails {
			place := r.place(rail, point)
			if place == "" {
				why := absent(rail, point)
				if why == "" {
					t.Errorf("%s of %s is neither played nor said to be impossible", point, rail)
				}
				i := slices.Index(reasons, why)
				if i < 0 {
					i, reasons = len(reasons), append(reasons, why)
				}
				place = fmt.Sprintf("(%d)", i+1)
			}
			fmt.Printf(" %-8s", place)
		}
	}
	fmt.Println()
	for i, why := range reasons {
		fmt.Printf("(%d) %s\n", i+1, why)
	}
}

// place is what one point came to on one rail: "ok 3" for three ways.
func (r *report) place(in rail, point string) string {
	var played, green int
	for _, o := range r.rows {
		if o.rail == in && slices.Contains(o.rows(), point) {
			played++
			if o.result == ok {
				green++
			}
		}
	}
	switch {
	case played == 0:
		return ""
	case green < played:
		return fmt.Sprintf("FAIL %d/%d", played-green, played)
	}
	return fmt.Sprintf("%s %d", ok, played)
}

// points are those of docs/use/payments.md.
func points() (list []string) {
	for i := range 17 {
		list = append(list, fmt.Sprintf("P%d", i+1))
	}
	for i := range 9 {
		list = append(list, fmt.Sprintf("B%d", i+1))
	}
	return list
}

// rows are the points that a cell plays: the one that it is named after, without
// the letter of its variant, or those that it names.
func (c cell) rows() []string {
	if c.as != "" {
		return strings.Fields(c.as)
	}
	return []string{strings.TrimRight(c.point, "abcdefghijklmnopqrstuvwxyz")}
}

// absent is why a point is not played on a rail; "" if it ought to be.
func absent(in rail, point string) string {
	const same = "the rail has no part in it: played with hold"
	const lndSettles = "nobody tells lnd to settle: the money is the payee's as it comes"
	const nothingHeld = "nothing is held, so nothing lapses or is cancelled"
	const oneMoment = "nothing is asked of the wallet between B2 and B6, which are played"
	at := func(list string) bool { return slices.Contains(strings.Fields(list), point) }
	switch {
	case at("P1 P7 P8 P13 P16 P17 B7 B8"):
		return same
	case in == hold && point == "B9":
		return "whoever pays has the result or its money back: P9 to P15"
	case in == overNWC && at("P2 P3 P4 P6 P9 P10 P11 P12 P14 P15 B5"):
		return "the wallet behind NWC is lnd, and the provider's too: played with hold"
	case in == overNWC && point == "B9":
		return absent(hold, point)
	case (in == prepay || in == postpay) && at("P10 P11"):
		return lndSettles
	case (in == prepay || in == postpay) && at("P14 P15"):
		return nothingHeld
	case in == postpay && point == "P6":
		return "the job has run before it is paid"
	case in == postpay && point == "B9":
		return "the result is there before it is paid"
	case (in == prepay || in == postpay) && at("B3 B4"):
		return oneMoment
	case (in == prepay || in == postpay) && at("P4 P6 B5"):
		return same
	case in == inNotes && at("P2 P3"):
		return "the wallet makes the invoice by itself, and writes it down with the quote's hash in one transaction"
	case in == inNotes && at("P14 P15"):
		return "a mint gives locked notes back when their lock ends and not before: payments/cashu plays that"
	case in == inNotes && point == "B4":
		return oneMoment
	case in == inNotes && point == "B5":
		return "a swap was made at the mint or was not, and the mint says which: B1m, B2m"
	case in == inNotes && point == "B9":
		return absent(hold, point)
	case in == onChain && at("P4 P6"):
		return same
	case in == onChain && at("P10 P11 P14"):
		return "a transaction is the payee's once it is confirmed: nothing is held or settled"
	case in == onChain && at("B3 B4"):
		return "a transaction is in flight from B2 to B6, and both of them kill the buyer and its lnd"
	case in == onChain && point == "B5":
		return "a signed transaction is published again until it is in a block: O5"
	case in == onChain && point == "B9":
		return "as prepay on lnd: only the proof differs, which internal/crashtest and internal/cli show"
	}
	return ""
}
