package buy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/node"
	"github.com/lightwork-market/lightwork/market/tree"
)

// sent is the files that an order sends: none, an archive in the request, or a tree that
// is too large for that.
type sent struct {
	archive []byte
	large   bool
	folder  fs.FS
	keep    map[string]bool
	tree    *tree.Summary // of a large one, once it is packed
}

// takesTree refuses a folder that is too large for a request where the request is for
// everybody: a tree is encrypted for providers that are known.
func (b buyerSubmitCmd) takesTree() error {
	if b.Open {
		return advice.Usage("leave --open out, name several with --to, or send less",
			"--repo: the folder is too large for a request, and larger ones are encrypted for each provider that gets them")
	}
	return nil
}

// notPacked says why a folder cannot be sent.
func notPacked(err error) error {
	if errors.As(err, new(*tree.EntryError)) || errors.As(err, new(*tree.LimitError)) {
		return advice.Usage("name it in .gitignore, or move it out of the folder; nothing was sent", "--repo: %w", err)
	}
	return fmt.Errorf("pack --repo: %w", err)
}

// progressEvery is how often a person is told how far packing is.
const progressEvery = 500 * time.Millisecond

// pack packs a folder that is too large for a request into the buyer's data folder, from
// where it is sent, now or after a restart.
func (f *sent) pack(s *app.Streams, n *node.Buyer, verb string) error {
	if !f.large {
		return nil
	}
	shown := time.Now()
	told := func(entries, size int64) {
		if file, ok := s.Err.(*os.File); ok && app.IsTerminal(file) && time.Since(shown) > progressEvery {
			shown = time.Now()
			fmt.Fprintf(s.Err, "lightwork: packs: %d files and folders, %d MiB\n", entries, size>>20)
		}
	}
	walk := func(visit func(name string, d fs.DirEntry) error) error {
		return walkPacked(f.folder, f.keep, tree.MaxEntries, visit)
	}

	t, err := n.Packs.Add(func(put func([]byte) error) (tree.Summary, error) { return tree.Pack(f.folder, walk, put, told) })
	if err != nil {
		return notPacked(err)
	}
	f.tree = &t
	fmt.Fprintf(s.Err, "lightwork: %d files and folders, %d bytes (%d packed), %s encrypted; the provider alone reads them\n",
		t.Entries, t.Size, t.Stored, verb)
	return nil
}
