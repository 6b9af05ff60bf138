package buyer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer/internal/trees"
	"github.com/lightwork-market/lightwork/buyer/purchase"
	"github.com/lightwork-market/lightwork/market/tree"
	"github.com/lightwork-market/lightwork/receipts"
)

// Errors of orders whose files are too large for a request. Nothing was sent.
var (
	// ErrNoTrees: the provider takes no such files.
	ErrNoTrees = errors.New("it takes no files that are too large for a request")
	// ErrPaidFirst: so much is sent only after the payment.
	ErrPaidFirst = fmt.Errorf("files of more than %d MiB are sent after the payment, in mode hold or prepay", tree.UnpaidBytes>>20)
	// ErrTreeGone: the order names files that are not packed here.
	ErrTreeGone = trees.ErrGone

	errTreeKey  = errors.New("files that are too large for a request need a key that encrypts, and a provider to encrypt for")
	errTreeForm = errors.New("the order has packed files, and its document is that of no sandbox run")
)

// TreeSizeError says that an order's files are larger than a provider takes.
type TreeSizeError struct{ Bytes, MaxBytes int64 }

func (e *TreeSizeError) Error() string {
	return fmt.Sprintf("the files have %d bytes when packed, it takes at most %d", e.Bytes, e.MaxBytes)
}

// modesFor are the modes of those announced that a tree can be sent in. asked is the mode
// that the order names, if it names one.
func modesFor(t tree.Summary, terms *tree.Terms, asked receipts.Mode, announced []receipts.Mode) ([]receipts.Mode, error) {
	switch {
	case terms == nil:
		return nil, ErrNoTrees
	case t.Size > terms.MaxBytes:
		return nil, &TreeSizeError{t.Size, terms.MaxBytes}
	case t.Stored <= tree.UnpaidBytes:
		return announced, nil
	}

	unpaid := func(m receipts.Mode) bool { return m != receipts.ModeHold && m != receipts.ModePrepay }
	left := slices.DeleteFunc(slices.Clone(announced), unpaid)
	if len(left) == 0 || asked != "" && unpaid(asked) {
		return nil, ErrPaidFirst
	}
	return left, nil
}

// sealTree encrypts a tree for a provider, writes it into the document of a sandbox run,
// and returns the tag that tells the provider the key.
func sealTree(ctx context.Context, cfg *Config, provider string, t tree.Summary, document []byte) (sealed []byte, tag nostr.Tag, err error) {
	if cfg.Trees == nil || cfg.Cipher == nil || provider == "" {
		return nil, nil, errTreeKey
	}
	m, g, err := cfg.Trees.Seal(ctx, provider, t)
	if err != nil {
		return nil, nil, err
	}
	if sealed, err = setTree(document, m); err != nil {
		return nil, nil, err
	}
	hidden, err := cfg.Cipher.NIP44Encrypt(ctx, provider, string(g.Encode()))
	if err != nil {
		return nil, nil, fmt.Errorf("encrypt the key of the files: %w", err)
	}
	return sealed, nostr.Tag{tree.GrantTag, hidden}, nil
}

// TreeOf is the packed tree that a purchase sent, for another order of the same job: nil if
// its files were in the request, ErrTreeGone if the tree is not packed here any more.
func TreeOf(ctx context.Context, c *Client, p Purchase) (*tree.Summary, error) {
	terms := purchase.TermsOf(p)
	m := terms.Tree()
	if m == nil {
		return nil, nil
	}
	if c.cfg.Trees == nil {
		return nil, errTreeKey
	}
	g, err := c.flow.Grant(ctx, purchase.View{Purchase: p, Terms: terms})
	if err != nil {
		return nil, err
	}

	s, err := c.cfg.Trees.Parts.Summary(g.Digest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrTreeGone
	case err != nil:
		return nil, err
	case s.Size != m.Size || s.Entries != m.Entries:
		return nil, fmt.Errorf("%w: what is packed has %d files and folders, %d bytes", ErrTreeGone, s.Entries, s.Size)
	}
	return &s, nil
}

func namesTree(document []byte) bool {
	var doc struct {
		Repo struct {
			Tree json.RawMessage `json:"tree"`
		} `json:"repo"`
	}
	return json.Unmarshal(document, &doc) == nil && doc.Repo.Tree != nil
}

// setTree makes a manifest the files of a document's job.
func setTree(document []byte, m *tree.Manifest) ([]byte, error) {
	var doc, repo map[string]json.RawMessage
	if json.Unmarshal(document, &doc) != nil || json.Unmarshal(doc["repo"], &repo) != nil || repo == nil {
		return nil, errTreeForm
	}
	var err error
	if repo["tree"], err = json.Marshal(m); err != nil {
		return nil, err
	}
	if doc["repo"], err = json.Marshal(repo); err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}
