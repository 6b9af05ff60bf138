package cli

import (
	"context"
	"fmt"
	"os"

	"github.com/lightwork-market/lightwork/internal/kernel"
)

type backupCmd struct {
	Role string `help:"Whose database: provider or buyer." required:"" enum:"provider,buyer"`
	Out  string `help:"A new file." required:"" placeholder:"FILE"`
}

// Run copies the database while it is in use and checks the copy.
func (c backupCmd) Run(ctx context.Context, s *streams, g *globals) error {
	conf, err := loadConfig(g.Config)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(c.Out); err == nil {
		return usage("name a new file", "--out: %s exists", c.Out)
	}
	k, err := kernel.Open(ctx, conf.dataDir(c.Role), kernel.Options{ReadOnly: true, Old: true, Logger: s.log})
	if err != nil {
		return hinted(err, "the first lightwork provider run, or buyer submit, makes the database of its role: is --role the right one?")
	}
	if err := firstError(k.Backup(ctx, c.Out), k.Close()); err != nil {
		return hinted(err, "is there room on the disk?")
	}
	fmt.Fprintf(s.err, "lightwork: wrote %s, the %s's database alone; keys and the preimage secret are separate files, keep them too\n", c.Out, c.Role)
	return nil
}
