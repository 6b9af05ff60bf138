package sell

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

type providerRetireCmd struct{}

// Run takes the announcement back.
func (providerRetireCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	c, err := app.Open(s, g)
	if err != nil {
		return err
	}
	acks, err := c.Market().Retire(ctx, func(open int) {
		if open > 0 {
			fmt.Fprintf(s.Err, "lightwork: %s not finished; provider run once more ends what can be ended\n", display.Count(int64(open), "job"))
		}
	})
	if err != nil {
		return err
	}

	taken := 0
	for _, a := range acks {
		if a.OK {
			taken++
		}
		fmt.Fprintf(s.Out, "%s  %s\n", display.Printable(a.Relay), display.Printable(deletion(a.OK, a.Message)))
	}

	if taken < len(acks) {
		return advice.Hint(errors.New("not every relay has deleted the announcement"), "run it again later; a relay may also ignore deletions")
	}
	return nil
}

func deletion(ok bool, message string) string {
	if ok {
		return "announcement deleted"
	}
	return "refused: " + message
}
