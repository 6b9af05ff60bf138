// Package backup has the commands that copy a database and put a copy in its place.
package backup

import (
	"context"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
)

// Cmd is lightwork backup.
type Cmd struct {
	Role string `help:"Whose database: provider or buyer." required:"" enum:"provider,buyer"`
	Out  string `help:"A new file." required:"" placeholder:"FILE"`
}

// Run copies the database while it is in use and checks the copy.
func (c Cmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(c.Out); err == nil {
		return advice.Usage("name a new file", "--out: %s exists", c.Out)
	}
	if err := conf.Databases().Backup(ctx, c.Role, c.Out); err != nil {
		return err
	}

	fmt.Fprintf(s.Err, "lightwork: wrote %s, the %s's database alone; keys and the preimage secret are separate files, keep them too\n", c.Out, c.Role)
	return nil
}
