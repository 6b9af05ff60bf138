// Package top draws what a running node does, anew every second.
package top

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/internal/observe"
)

// Cmd is lightwork top.
type Cmd struct {
	Once  bool          `help:"Print it once and end."`
	JSON  bool          `help:"Print the whole state as JSON, once."`
	Every time.Duration `help:"How often to look." default:"1s"`
}

// What a terminal is told: the other screen without a cursor, and back.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	fromTheTop  = "\x1b[H"
	restOfLine  = "\x1b[K"
	restOfPage  = "\x1b[J"
)

// Run shows the running provider until interrupted, or q is pressed. It reads the provider's
// socket in the data folder, so it works for whoever runs the node, by ssh too.
func (t Cmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if t.Every < 100*time.Millisecond {
		return advice.Usage("for example --every 2s", "--every %s is too often", t.Every)
	}

	look := node.LookAt(c.ObserveSocket())
	width, _, isScreen := app.ScreenSize(s.Out)
	if t.JSON || t.Once || !isScreen {
		raw, state, err := look(ctx)
		if err != nil {
			return err
		}
		if t.JSON {
			_, err = s.Out.Write(raw)
			return err
		}
		page := drawing{width: width}
		_, err = io.WriteString(s.Out, page.draw(state))
		return err
	}

	ctx, restore := leftByKey(ctx, s.In)
	defer restore()

	fmt.Fprint(s.Out, enterScreen)
	defer fmt.Fprint(s.Out, leaveScreen)

	return t.live(ctx, s.Out, look)
}

// leftByKey returns a context that ends when q is pressed, or Ctrl-C, which is a
// key and no signal as long as keys are read one by one. Restore gives the
// terminal back as it was. Without a terminal there are no keys.
func leftByKey(ctx context.Context, in io.Reader) (left context.Context, restore func()) {
	left, leave := context.WithCancel(ctx)
	f, ok := in.(*os.File)
	if !ok {
		return left, leave
	}
	before, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return left, leave
	}
	go func() { // waits for a key until the process ends
		defer leave()
		for key := make([]byte, 1); ; {
			if n, err := f.Read(key); n == 0 || err != nil || bytes.ContainsAny(key, "qQ\x03") {
				return
			}
		}
	}()
	return left, func() {
		leave()
		_ = term.Restore(int(f.Fd()), before)
	}
}

// live draws again and again until interrupted.
func (t Cmd) live(ctx context.Context, out io.Writer, look func(context.Context) ([]byte, observe.State, error)) error {
	tick := time.NewTicker(t.Every)
	defer tick.Stop()

	colour := os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
	for {
		width, height, _ := app.ScreenSize(out)

		page := drawing{width: width, height: height, colour: colour}
		var text string
		_, state, err := look(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // that is how one leaves
		case err != nil:
			text = page.trouble(err)
		default:
			text = page.draw(state)
		}

		if _, err := io.WriteString(out, refresh(text)); err != nil {
			return err
		}

		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// refresh draws over what is there, which flickers less than an empty page.
func refresh(text string) string {
	var b bytes.Buffer
	b.WriteString(fromTheTop)
	for line := range bytes.Lines([]byte(text)) {
		b.Write(bytes.TrimSuffix(line, []byte("\n")))
		b.WriteString(restOfLine)
		if bytes.HasSuffix(line, []byte("\n")) {
			b.WriteString("\r\n")
		}
	}
	b.WriteString(restOfPage)
	return b.String()
}
