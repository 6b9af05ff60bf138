package replay

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"time"

	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/replay"
)

//go:embed replay.html.tmpl
var replayPage string

// mostBars is how many calls are drawn; the table has all.
const mostBars = 400

// bar is a tool call in the picture, in its units: 1000 wide, 18 a row.
type bar struct {
	X, Width, Y, TextY float64
	Label              string
	Failed             bool
}

// mark is a moment in the picture: a payment, the end of a step.
type mark struct {
	X     float64
	Label string
	Class string
}

type pageRow struct{ When, Event, What string }

// page is what the template shows.
type page struct {
	Session, Producer, Policy, Status string
	Redacted                          bool
	Hashes                            replay.Hashes
	Began                             string
	Took                              time.Duration
	Bars                              []bar
	Undrawn                           int
	Height, Full                      float64 // of the bars, and with the scale above them
	Marks                             []mark
	Ticks                             []mark
	Rows                              []pageRow
}

// exportHTML writes one page with everything in it: no script, and nothing that
// is fetched. html/template escapes whatever the record holds.
func exportHTML(r io.Reader, sum *replay.Summary, out io.Writer) error {
	shown, err := template.New("replay").Parse(replayPage)
	if err != nil {
		return err
	}
	p := page{
		Session: display.Printable(sum.SessionID), Producer: display.Printable(sum.Producer), Policy: display.Printable(sum.PolicyBundleID),
		Status: sum.Status, Redacted: sum.IsRedacted, Hashes: sum.Hashes,
	}
	var lines []replay.Line
	if err := eachReplayLine(r, func(line replay.Line, _ []byte) error {
		when, what := describe(line)
		p.Rows = append(p.Rows, pageRow{when, display.Printable(line.Event()), display.Printable(what)})
		lines = append(lines, line)
		return nil
	}); err != nil {
		return err
	}

	p.draw(lines)
	return shown.Execute(out, p)
}

// draw lays the calls out over the time that the session took, one below the
// other in their order.
func (p *page) draw(lines []replay.Line) {
	began, ended := span(lines)
	p.Began, p.Took = began.UTC().Format("2006-01-02 15:04:05.000Z"), ended.Sub(began)
	x := func(t replay.Time) float64 {
		return min(1000, max(0, 1000*float64(t.Sub(began))/float64(max(1, p.Took))))
	}

	rows := map[string]int{} // call id: its bar
	for _, line := range lines {
		switch l := line.(type) {
		case *replay.ToolCall:
			if len(p.Bars) == mostBars {
				p.Undrawn++
				continue
			}
			y := float64(18 * len(p.Bars))
			rows[l.ID] = len(p.Bars)
			p.Bars = append(p.Bars, bar{X: x(l.T), Width: 1000 - x(l.T), Y: y + 3, TextY: y + 13, Label: display.Printable(l.Tool)})
		case *replay.ToolResult:
			if i, drawn := rows[l.ID]; drawn {
				b := &p.Bars[i]
				b.Width = max(2, x(l.T)-b.X)
				b.Label += fmt.Sprintf(" %d ms", l.LatencyMs)
				b.Failed = l.ExitCode != nil && *l.ExitCode != 0
			}
		case *replay.Payment:
			p.Marks = append(p.Marks, mark{x(l.T), display.Printable(display.Msats(l.AmountMsats) + " " + l.Status), "payment"})
		case *replay.StepComplete:
			p.Marks = append(p.Marks, mark{x(l.T), display.Printable(l.StepID + " " + l.Status), "step"})
		}
	}

	p.Height = float64(18*len(p.Bars)) + 8
	p.Full = p.Height + 18
	for i := range 5 {
		p.Ticks = append(p.Ticks, mark{X: float64(i) * 250, Label: (p.Took * time.Duration(i) / 4).Round(time.Millisecond).String()})
	}
}

// span is from SessionStart to SessionEnd.
func span(lines []replay.Line) (began, ended time.Time) {
	for _, line := range lines {
		switch l := line.(type) {
		case *replay.SessionStart:
			began = l.T.Time
		case *replay.SessionEnd:
			ended = l.T.Time
		}
	}

	if ended.Before(began) {
		ended = began
	}
	return began, ended
}
