// Package backup has the commands that copy what a node keeps and put a copy in its place.
package backup

import (
	"context"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
)

// Cmd is lightwork backup.
type Cmd struct {
	Role string `help:"The database of a role alone: provider or buyer. Left out: the whole data folder." enum:",provider,buyer" default:"" placeholder:"ROLE"`
	Out  string `help:"A new folder, or with --role a new file." required:"" placeholder:"PATH"`
}

// Run copies what is there while it is in use and checks the copy.
func (c Cmd) Run(ctx context.Context, s *app.Streams, g *app.Globals) error {
	conf, err := app.Open(s, g)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(c.Out); err == nil {
		return advice.Usage("name a new file or folder", "--out: %s exists", c.Out)
	}
	if c.Role != "" {
		if err := conf.Databases().Backup(ctx, c.Role, c.Out); err != nil {
			return err
		}
		fmt.Fprintf(s.Err, "lightwork: wrote %s, the %s's database alone; keys and the preimage secret are separate files, keep them too\n", c.Out, c.Role)
		return nil
	}

	made, err := conf.Databases().BackupAll(ctx, c.Out, func(file string) {
		fmt.Fprintf(s.Err, "lightwork: copying %s\n", display.Printable(file))
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "wrote %s: %s, %s, %s\n", c.Out, display.Count(int64(made.Databases), "database"), display.Count(int64(made.Files), "other file"), display.Count(made.Bytes, "byte"))
	fmt.Fprintln(s.Err, "lightwork: keys, the preimage secret, files of wallets and lightwork.yaml are not in it: keep them too, in another place")
	return nil
}
