package purchase

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/internal/display"
)

// timeline prints what happens to a purchase, one line a step: how long after
// the beginning, who, what, how much, which hash.
type timeline struct {
	w      io.Writer
	began  time.Time
	prefix string
}

// NewTimeline shows the steps of a purchase on w as they happen.
func NewTimeline(w io.Writer) *timeline { return &timeline{w: w, began: time.Now()} }

// Of begins each line with the name of the purchase that it is about, where several are
// shown.
func (t *timeline) Of(id string) *timeline {
	t.prefix = "  " + Name(id)
	return t
}

// words says in a sentence what the short names mean.
var words = map[string]string{
	"requested":      "asks for the job",
	"waiting":        "has no answer yet; Ctrl-C is safe, lightwork buyer resume goes on",
	"uploads":        "uploads the files",
	"upload_failed":  "could not upload the files; it is tried again",
	"next":           "asks the next provider instead",
	"quoted":         "quotes a price and sends an invoice",
	"accepted":       "signs the acceptance and pays",
	"processing":     "runs the job",
	"result":         "delivers the result",
	"working":        "works",
	"sealed":         "delivers the result, sealed",
	"opened":         "opens it with the preimage",
	"paid":           "payment settled, preimage received",
	"confirmed":      "payment confirmed on the chain",
	"halted":         "keeps the payment back; lightwork resume-spending lets it go, and Ctrl-C is safe",
	"payment_failed": "payment came back",
	"receipt":        "signs the receipt",
	"success":        "is done",
	"refused":        "does not believe or pay this",
	"error":          "gives up",
	"refund":         "sends the money back",
	"refunded":       "the prepayment came back",
	"refund_pending": "sees the prepayment come back; lightwork buyer resume looks again",
	"refund_missing": "the prepayment has not come back yet; lightwork buyer resume looks again",
	"refund_unknown": "cannot see whether the prepayment came back",
	"done":           "has everything and has verified it",
	"asks":           "asks to be paid",
	"done_unproved":  "has the answer, which nothing proves",
	"given_up":       "waits for nothing more",
	"closed":         "takes no more commits",
	"revealed":       "reveals what it committed to",
	"agreed":         "pays those that agree",
	"first":          "pays the first",
	"ballot":         "asks the judge",
	"spoiled":        "cannot use the judge's answer",
	"judged":         "pays the one that the judge chose",
	"merged":         "merges the results and pays those borne out",
	"rejected":       "pays nobody for a result",
	"no_consensus":   "pays nobody",
	"nobody":         "pays nobody",
	"over_budget":    "pays nobody",
	"cancels":        "asks the provider to stop",
	"failed":         "has nothing of it",
	"canceled":       "has canceled it",
}

// Step shows one step.
func (t *timeline) Step(p buyer.Progress) {
	if p.What == "partial" {
		for line := range strings.Lines(display.Printable(p.Text)) {
			fmt.Fprintf(t.w, "%s  %7s  %-8s | %s\n", t.prefix, "", "output", strings.TrimRight(line, "\n"))
		}
		return
	}
	say := words[p.What]
	if say == "" {
		say = p.What
	}
	line := fmt.Sprintf("%s  %6.2fs  %-8s %s", t.prefix, max(0, p.At.Sub(t.began).Seconds()), p.Who, say)
	if p.Msats > 0 && p.What == "requested" {
		line += ", for at most " + display.Msats(p.Msats)
	} else if p.Msats > 0 {
		line += ", " + display.Msats(p.Msats)
	}

	if p.Hash != "" {
		line += "  " + display.Short(p.Hash)
	}
	if p.Text != "" {
		line += "  (" + strings.ReplaceAll(display.Printable(p.Text), "\n", " ") + ")"
	}
	fmt.Fprintln(t.w, line)
}
