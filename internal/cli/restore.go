package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/internal/kernel"
	"github.com/lightwork-market/lightwork/internal/sqlite"
)

type restoreCmd struct {
	Role string `help:"Whose database: provider or buyer." required:"" enum:"provider,buyer"`
	From string `help:"A file that lightwork backup wrote." required:"" type:"existingfile" placeholder:"FILE"`
}

// Run puts a backup in the place of the database and says where the old one is.
func (c restoreCmd) Run(ctx context.Context, s *streams, g *globals) error {
	conf, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	kept, err := kernel.Restore(ctx, conf.dataDir(c.Role), c.From, kernel.Side(c.Role))
	if err != nil {
		if errors.Is(err, sqlite.ErrForeign) {
			return hinted(err, "it is the other role's; name its --role, or another backup")
		}
		if errors.Is(err, sqlite.ErrLocked) {
			return hinted(err, "stop the node first; the backup itself is not changed")
		}
		if sqlite.IsDamaged(err) || errors.Is(err, sqlite.ErrUnreleased) || errors.Is(err, sqlite.ErrTooNew) {
			err = errors.New(err.Error()) // the backup is: the hints for a database of the node are not for it
		}
		return hinted(err, "name another backup; this one is not changed")
	}
	fmt.Fprintf(s.out, "restored the %s's database from %s\n", c.Role, c.From)
	if kept != "" {
		fmt.Fprintf(s.out, "what was there is in %s\n", kept)
	}
	if c.Role == "provider" {
		fmt.Fprintln(s.err, "lightwork: jobs and payments since the backup are not in it; before it sells, the provider asks its relays what it has signed since")
	}
	return nil
}
