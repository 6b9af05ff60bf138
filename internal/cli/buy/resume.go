package buy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/cli/panel"
	"github.com/lightwork-market/lightwork/internal/cli/purchase"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/lease"
	"github.com/lightwork-market/lightwork/internal/node"
)

type buyerResumeCmd struct {
	ID string `arg:"" optional:"" help:"One purchase (id or its beginning); all open ones that nobody works on if left out."`
	purchase.Outputs
	JSON bool `help:"Print JSON."`
}

// Help is shown below the flags.
func (buyerResumeCmd) Help() string { return buyerSubmitCmd{}.Help() }

// Run goes on with open purchases, all at once.
func (b buyerResumeCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	if err := b.Check(); err != nil {
		return err
	}

	return purchase.WithBuyer(ctx, s, g, func(ctx context.Context, n *node.Buyer) error {
		if b.ID != "" {
			return b.one(ctx, s, n)
		}
		ids, err := n.Purchases.Open(ctx)
		if err != nil {
			return err
		}

		if len(ids) == 0 {
			fmt.Fprintln(s.Err, "lightwork: no purchase is open")
			return nil
		}
		if b.Outputs != (purchase.Outputs{}) && len(ids) > 1 {
			return advice.Usage("name the purchase", "--out and --files are for one purchase, and %d are open", len(ids))
		}
		return b.all(ctx, s, n, ids)
	})
}

// one goes on with the purchase or panel that the command names.
func (b buyerResumeCmd) one(ctx context.Context, s *app.Streams, n *node.Buyer) error {
	id := ""
	if strings.HasPrefix(b.ID, panel.Prefix) {
		p, err := panel.Find(ctx, n.Purchases, b.ID)
		if err != nil {
			return err
		}
		id = p.ID
	} else {
		p, err := purchase.Find(ctx, n.Purchases, b.ID)
		if err != nil {
			return err
		}
		id = p.RequestID
	}

	err := b.goOn(ctx, s, n, id, false)
	var held *lease.HeldError
	if errors.As(err, &held) {
		name := purchase.Name(id)
		return advice.Unfinished(fmt.Errorf("process %d works on %s already", held.PID, name), "lightwork buyer follow "+name+" shows what becomes of it; lightwork buyer cancel "+name+" ends it")
	}
	return err
}

// goOn works on a purchase or panel that nobody works on.
func (b buyerResumeCmd) goOn(ctx context.Context, s *app.Streams, n *node.Buyer, id string, several bool) error {
	if strings.HasPrefix(id, panel.Prefix) {
		return panel.Resume(ctx, s, n, id, b.Outputs, b.JSON)
	}
	show := purchase.NewTimeline(s.Err)
	if several {
		show.Of(id)
	}
	p, err := n.Orders.FollowOrder(ctx, id, show.Step)
	if errors.Is(err, lease.ErrHeld) {
		return err
	}
	return finish(ctx, s, n.Purchases, id, p, b.Outputs, b.JSON, err)
}

// all goes on with every one that nobody works on. What each prints comes in one piece.
func (b buyerResumeCmd) all(ctx context.Context, s *app.Streams, n *node.Buyer, ids []string) error {
	errs := make([]error, len(ids))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i, id := range ids {
		wg.Go(func() {
			var out bytes.Buffer
			own := *s
			own.Out, own.Err = &out, lines{&mu, s.Err}
			errs[i] = b.goOn(ctx, &own, n, id, len(ids) > 1)

			mu.Lock()
			defer mu.Unlock()
			_, _ = s.Out.Write(out.Bytes()) // as a failed print is no failed purchase
		})
	}
	wg.Wait()

	var last error
	for i, err := range errs {
		var held *lease.HeldError
		switch {
		case errors.As(err, &held):
			fmt.Fprintf(s.Err, "lightwork: process %d works on %s\n", held.PID, purchase.Name(ids[i]))
		case err != nil && len(ids) > 1:
			fmt.Fprintf(s.Err, "lightwork: %s: %s\n", purchase.Name(ids[i]), display.OneLine(err.Error()))
			last = err
		case err != nil:
			last = err
		}
	}
	return last
}

// lines writes what several goroutines have to say, one piece at a time.
type lines struct {
	mu *sync.Mutex
	w  io.Writer
}

func (l lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}
