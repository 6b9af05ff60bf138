package backup

import (
	"context"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/cli/app"
)

// RestoreCmd is lightwork restore.
type RestoreCmd struct {
	Role string `help:"Whose database: provider or buyer." required:"" enum:"provider,buyer"`
	From string `help:"A file that lightwork backup wrote." required:"" type:"existingfile" placeholder:"FILE"`
}

// Run puts a backup in the place of the database and says where the old one is.
func (c RestoreCmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	kept, err := conf.Databases().Restore(ctx, c.Role, c.From)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "restored the %s's database from %s\n", c.Role, c.From)
	if kept != "" {
		fmt.Fprintf(s.Out, "what was there is in %s\n", kept)
	}
	if c.Role == "provider" {
		fmt.Fprintln(s.Err, "lightwork: jobs and payments since the backup are not in it; before it sells, the provider asks its relays what it has signed since")
	}
	return nil
}
