package top

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/observe"
	"github.com/lightwork-market/lightwork/relay"
)

// Colours of the page; what they say, words say too.
const (
	bold   = "1"
	dim    = "2"
	red    = "31"
	green  = "32"
	yellow = "33"
)

// drawing is one page of lightwork top. No line is wider than width; with a
// height, no page is longer. Text from relays and agents is made printable.
type drawing struct {
	width, height int
	colour        bool
	lines         []string
}

// part is a piece of a line in one colour.
type part struct{ colour, text string }

// line adds a line, cut to the width.
func (d *drawing) line(parts ...part) {
	var b strings.Builder
	left := d.width
	for _, p := range parts {
		// A text from outside that went on below would look like a line of ours.
		text := display.Clip(strings.ReplaceAll(display.Printable(p.text), "\n", " "), left)
		left -= utf8.RuneCountInString(text)
		if d.colour && p.colour != "" && text != "" {
			text = "\x1b[" + p.colour + "m" + text + "\x1b[0m"
		}
		b.WriteString(text)
	}

	d.lines = append(d.lines, strings.TrimRight(b.String(), " "))
}

func (d *drawing) text() string {
	lines := d.lines
	if d.height > 0 && len(lines) > d.height-1 {
		more := len(lines) - (d.height - 2)
		lines = append(lines[:d.height-2:d.height-2], display.Clip(fmt.Sprintf("… %d more lines; a taller window shows them", more), d.width))
	}
	return strings.Join(lines, "\n") + "\n"
}

// trouble is the page of a node that does not answer.
func (d *drawing) trouble(err error) string {
	d.line(part{bold, "lightwork top"})
	d.line()
	d.line(part{red, err.Error()})
	d.line(part{dim, "looking again; q leaves"})
	return d.text()
}

// draw is the page of a node: what needs attention first.
func (d *drawing) draw(s observe.State) string {
	d.head(s)
	d.money(s)
	d.relays(s)
	d.agents(s)
	d.jobs(s)
	return d.text()
}

func (d *drawing) head(s observe.State) {
	state := part{green, "ready"}
	if !s.Ready {
		state = part{red, "NOT READY"}
	}
	d.line(part{bold, "lightwork " + s.Version}, part{"", "  "}, state, part{"", "  up " + ago(s.At.Sub(s.StartedAt)) + "  "}, part{dim, display.NPub(s.PubKey)})
	for _, c := range s.Checks {
		if !c.OK {
			d.line(part{red, fmt.Sprintf("  %-9s ", c.Name)}, part{"", c.Detail})
		}
	}
}

func (d *drawing) money(s observe.State) {
	t := s.Totals
	d.line()
	d.line(part{bold, "jobs   "}, part{"", fmt.Sprintf("%d open, ", len(s.Open))}, part{green, fmt.Sprintf("%d succeeded", t.Succeeded)},
		part{failedColour(t.Failed), fmt.Sprintf(", %d failed", t.Failed)})
	d.line(part{"", fmt.Sprintf("       %d canceled, %d expired, %d refused", t.Canceled, t.Expired, t.Refused)})
	d.line(part{bold, "money  "}, part{"", fmt.Sprintf("settled %s, held %s, returned %s", display.Msats(t.SettledMsats), display.Msats(s.HeldMsats), display.Msats(t.ReturnedMsats))},
		part{failedColour(t.OwedMsats), fmt.Sprintf(", owed %s", display.Msats(t.OwedMsats))})
	d.line(part{bold, "outbox "}, part{"", fmt.Sprintf("%d events wait for a relay", s.Outbox)})
}

func failedColour(n int64) string {
	if n > 0 {
		return yellow
	}
	return ""
}

func (d *drawing) relays(s observe.State) {
	d.line()
	for i, r := range s.Relays {
		colour := green
		if r.State != relay.StateConnected {
			colour = red
		}
		d.line(part{bold, label(i, "relays ")}, part{colour, fmt.Sprintf("%-11s", r.State)}, part{"", fmt.Sprintf("%s  in %d out %d", r.URL, r.Received, r.Published)}, part{dim, trouble(r)})
	}
}

func trouble(r relay.Status) string {
	if r.State == relay.StateConnected || r.Error == "" {
		return ""
	}
	return "  " + r.Error
}

func (d *drawing) agents(s observe.State) {
	for i, a := range s.Agents {
		colour := green
		if a.State != supervisor.StateRunning {
			colour = red
		}
		text := fmt.Sprintf("%s  %s under way, %s", a.ID, display.Count(int64(a.Inflight), "call"), display.Count(int64(a.Restarts), "restart"))
		d.line(part{bold, label(i, "agents ")}, part{colour, fmt.Sprintf("%-11s", a.State)}, part{"", text}, part{dim, "  " + a.Reason})
	}
}

func label(i int, name string) string {
	if i == 0 {
		return name
	}
	return strings.Repeat(" ", len(name))
}

func (d *drawing) jobs(s observe.State) {
	d.line()
	if len(s.Open) == 0 {
		d.line(part{dim, "no job is open"})
		return
	}
	d.line(part{bold, fmt.Sprintf("%-12s %-10s %7s %7s  %-14s %s", "JOB", "STATE", "FOR", "AGE", "PRICE", "TYPE")})
	for _, j := range s.Open {
		d.line(part{"", fmt.Sprintf("%-12s ", display.Short(j.RequestID))}, part{yellow, fmt.Sprintf("%-10s", j.State)},
			part{"", fmt.Sprintf(" %7s %7s  %-14s %s", ago(s.At.Sub(j.StateAt)), ago(s.At.Sub(j.AddedAt)), j.Mode+" "+display.Msats(j.PriceMsats), j.Schema)})
	}
}

// ago is a duration in at most two units.
func ago(d time.Duration) string {
	d = max(d, 0)
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
