package backup

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

// RestoreCmd is lightwork restore.
type RestoreCmd struct {
	Role string `help:"The database of a role alone: provider or buyer. Left out: the whole data folder." enum:",provider,buyer" default:"" placeholder:"ROLE"`
	From string `help:"What lightwork backup wrote: a folder, or with --role a file." required:"" type:"existingpath" placeholder:"PATH"`
}

// Run puts a backup in the place of what is there and says where that is.
func (c RestoreCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}

	var kept string
	if c.Role != "" {
		if kept, err = conf.Databases().Restore(ctx, c.Role, c.From); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "restored the %s's database from %s\n", c.Role, c.From)
	} else {
		fmt.Fprintf(s.Err, "lightwork: checking %s, then copying it\n", display.Printable(c.From))
		was, made, err := conf.Databases().RestoreAll(ctx, c.From)
		if err != nil {
			return err
		}
		kept = was
		fmt.Fprintf(s.Out, "restored %s and %s from %s\n", display.Count(int64(made.Databases), "database"), display.Count(int64(made.Files), "other file"), c.From)
	}

	if kept != "" {
		fmt.Fprintf(s.Out, "what was there is in %s\n", kept)
	}
	if c.Role != "buyer" {
		fmt.Fprintln(s.Err, "lightwork: jobs and payments since the backup are not in it; before it sells, the provider asks its relays what it has signed since")
	}
	return nil
}
