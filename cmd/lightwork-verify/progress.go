package main

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/lightwork-market/lightwork/receipts"
)

// progress is a line on a terminal that is repeatedly overwritten. On other outputs
// it does nothing.
type progress struct {
	w       io.Writer // nil if there is no terminal
	began   time.Time
	last    time.Time
	written bool
}

func newProgress(w io.Writer) *progress {
	p := &progress{began: time.Now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.w = w
		}
	}
	return p
}

// minInterval is the least time between two updates.
const minInterval = 100 * time.Millisecond

func (p *progress) show(t *tally) {
	if p.w == nil || time.Since(p.last) < minInterval {
		return
	}
	p.last, p.written = time.Now(), true
	rate := float64(t.bundles) / max(time.Since(p.began).Seconds(), 0.001)
	fmt.Fprintf(p.w, "\r\x1b[K%d verified, %d failed, %.0f a second", t.bundles, t.exits[receipts.ExitFailed], rate)
}

// clear removes the line before other output.
func (p *progress) clear() {
	if p.written {
		fmt.Fprint(p.w, "\r\x1b[K")
		p.written = false
	}
}
