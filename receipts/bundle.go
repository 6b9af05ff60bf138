package receipts

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Names of the files of a bundle.
const (
	FileReceipt      = "RECEIPT.json"
	FileReceiptEvent = "RECEIPT.event.json"
	FileQuote        = "QUOTE.json"
	FileQuoteEvent   = "QUOTE.event.json"
	FileAcceptance   = "ACCEPTANCE.event.json"
	FileRequest      = "REQUEST.event.json"
	FileInputs       = "INPUTS.jsonl"
	FileResultEvent  = "RESULT.event.json"
	FileResult       = "RESULT.json"
	FileSeal         = "SEAL.json"
	FileReplay       = "REPLAY.jsonl"
	FilePolicy       = "POLICY.json"
	FilePRSummary    = "PR_SUMMARY.md"
	FilePrevious     = "PREVIOUS_RECEIPT.json"
	FilePruned       = "PRUNED.event.json"
	ArtifactDir      = "artifacts" // artifacts/<sha256 in hex>
)

// Bundle holds all documents of one paid job, as bytes. A nil part is absent. Events
// have the form of [Event.JSON], other JSON documents are canonical. [ReadBundle] and
// [ReadTar] read a bundle, [Bundle.WriteTar] writes one, [Verify] grades it.
type Bundle struct {
	Receipt      []byte
	ReceiptEvent []byte
	Quote        []byte
	QuoteEvent   []byte // the provider's event that asks for the price; required only for an engagement fee
	Acceptance   []byte // the buyer's event; optional
	Request      []byte // the buyer's event
	Inputs       []byte // the events that the request references as inputs; absent if there are none
	ResultEvent  []byte // the provider's event
	Result       []byte // the result document
	Seal         []byte // of a sealed result: the document that its event commits to
	Replay       []byte
	Policy       []byte
	PRSummary    []byte // optional: a copy of the artifact of that name
	Previous     []byte // optional: the provider's receipt before this one
	Pruned       []byte // optional: the provider's event that says what it has pruned
	// Artifacts are by the SHA-256 of their content, 64 hex digits.
	Artifacts map[string][]byte
}

// Limits bound the size of a bundle that is read. Zero values mean the defaults.
type Limits struct {
	TotalBytes int64 // of all files, default 256 MiB
	FileBytes  int64 // of the replay, the result or one artifact, default 64 MiB
	Artifacts  int   // default 128
}

// MaxEventBytes bounds an event in a bundle, and every other file that [Limits] has no
// bound for.
const MaxEventBytes = 1 << 20

const maxDocument = MaxEventBytes

func (l Limits) orDefault() Limits {
	if l.TotalBytes == 0 {
		l.TotalBytes = 256 << 20
	}
	if l.FileBytes == 0 {
		l.FileBytes = 64 << 20
	}
	if l.Artifacts == 0 {
		l.Artifacts = 128
	}
	return l
}

// bundlePart is a file of a bundle with a fixed name.
type bundlePart struct {
	name string
	data *[]byte
	big  bool
}

// parts lists the fixed files in the order in which they are written.
func (b *Bundle) parts() []bundlePart {
	return []bundlePart{
		{FileReceipt, &b.Receipt, false},
		{FileReceiptEvent, &b.ReceiptEvent, false},
		{FileQuote, &b.Quote, false},
		{FileQuoteEvent, &b.QuoteEvent, false},
		{FileAcceptance, &b.Acceptance, false},
		{FileRequest, &b.Request, false},
		{FileInputs, &b.Inputs, false},
		{FileResultEvent, &b.ResultEvent, false},
		{FileResult, &b.Result, true},
		{FileSeal, &b.Seal, false},
		{FileReplay, &b.Replay, true},
		{FilePolicy, &b.Policy, false},
		{FilePRSummary, &b.PRSummary, false},
		{FilePrevious, &b.Previous, false},
		{FilePruned, &b.Pruned, false},
	}
}

// IsBundleFile reports whether a name is that of one of the fixed files.
func IsBundleFile(name string) bool {
	return slices.ContainsFunc(new(Bundle).parts(), func(p bundlePart) bool { return p.name == name })
}

// Files yields name and content of every file that is present, always in the
// same order: the fixed names first, then artifacts by hash. Names use slashes.
func (b *Bundle) Files() iter.Seq2[string, []byte] {
	return func(yield func(string, []byte) bool) {
		for _, p := range b.parts() {
			if *p.data != nil && !yield(p.name, *p.data) {
				return
			}
		}
		for _, hash := range slices.Sorted(maps.Keys(b.Artifacts)) {
			if !yield(ArtifactDir+"/"+hash, b.Artifacts[hash]) {
				return
			}
		}
	}
}

// loader fills a bundle from names and readers within limits.
type loader struct {
	bundle Bundle
	limits Limits
	total  int64
	fixed  []bundlePart
}

func newLoader(limits Limits) *loader {
	l := &loader{limits: limits.orDefault()}
	l.bundle.Artifacts = map[string][]byte{}
	l.fixed = l.bundle.parts()
	return l
}

// add adds a file. Unknown names are refused, because every file of a bundle must be
// covered by a claim.
func (l *loader) add(name string, file content) error {
	if hash, ok := strings.CutPrefix(name, ArtifactDir+"/"); ok {
		return l.addArtifact(hash, file)
	}
	i := slices.IndexFunc(l.fixed, func(p bundlePart) bool { return p.name == name })
	if i < 0 {
		return fmt.Errorf("%w: unknown file %s", ErrBundle, quoted(name))
	}
	part := l.fixed[i]
	if *part.data != nil {
		return fmt.Errorf("%w: %s twice", ErrBundle, name)
	}
	limit := int64(maxDocument)
	if part.big {
		limit = l.limits.FileBytes
	}
	data, err := l.read(name, file, limit)
	*part.data = data
	return err
}

func (l *loader) addArtifact(hash string, file content) error {
	switch {
	case !isHex(hash, hex.EncodedLen(32)):
		return fmt.Errorf("%w: an artifact is named by its SHA-256 in hex, not %s", ErrBundle, quoted(hash))
	case l.bundle.Artifacts[hash] != nil:
		return fmt.Errorf("%w: artifact %s twice", ErrBundle, hash)
	case len(l.bundle.Artifacts) == l.limits.Artifacts:
		return fmt.Errorf("%w: more than %d artifacts", ErrBundle, l.limits.Artifacts)
	}
	data, err := l.read(hash, file, l.limits.FileBytes)
	l.bundle.Artifacts[hash] = data
	return err
}

// read never returns nil data without an error: an empty file is present.
func (l *loader) read(name string, file content, limit int64) ([]byte, error) {
	limit = min(limit, l.limits.TotalBytes-l.total)
	data, err := file.upTo(limit + 1)
	if err != nil {
		return nil, fmt.Errorf("%w: read %s: %w", ErrBundle, name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%w: %s is too large", ErrBundle, name)
	}
	l.total += int64(len(data))
	return data, nil
}

// content is the content of a file. upTo returns all of it, or its first n bytes.
type content interface{ upTo(n int64) ([]byte, error) }

// memory is a file that is in memory already.
type memory []byte

func (m memory) upTo(n int64) ([]byte, error) { return m[:min(n, int64(len(m)))], nil }

// stream is a file of about size bytes, as its folder or archive says; 0 if unknown.
type stream struct {
	io.Reader
	size int64
}

// The first buffer for a file has leastRoom bytes if its size is unknown, and at most
// mostRoom, because an archive may claim a false size.
const (
	leastRoom = 4 << 10
	mostRoom  = 64 << 10
)

func (s stream) upTo(n int64) ([]byte, error) {
	size := s.size
	if size <= 0 {
		size = leastRoom
	}
	data := bytes.NewBuffer(make([]byte, 0, min(size, mostRoom)+bytes.MinRead))
	_, err := data.ReadFrom(io.LimitReader(s, n))
	return data.Bytes(), err
}

func (l *loader) done() (*Bundle, error) {
	if l.bundle.Receipt == nil {
		return nil, fmt.Errorf("%w: no %s", ErrBundle, FileReceipt)
	}
	return &l.bundle, nil
}

// ReadBundle reads a bundle from a folder. The folder may contain only regular files
// with the names of a bundle; anything else, including a link, makes it unusable.
// Errors wrap [ErrBundle].
func ReadBundle(fsys fs.FS, limits Limits) (*Bundle, error) {
	l := newLoader(limits)
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBundle, err)
	}

	for _, entry := range entries {
		if entry.Name() == ArtifactDir && entry.IsDir() {
			if err := l.addFolder(fsys); err != nil {
				return nil, err
			}
			continue
		}
		if err := l.addFile(fsys, entry.Name(), entry); err != nil {
			return nil, err
		}
	}

	return l.done()
}

func (l *loader) addFolder(fsys fs.FS) error {
	entries, err := fs.ReadDir(fsys, ArtifactDir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBundle, err)
	}
	for _, entry := range entries {
		if err := l.addFile(fsys, ArtifactDir+"/"+entry.Name(), entry); err != nil {
			return err
		}
	}
	return nil
}

func (l *loader) addFile(fsys fs.FS, name string, entry fs.DirEntry) error {
	if !entry.Type().IsRegular() {
		return fmt.Errorf("%w: %s is not a regular file", ErrBundle, quoted(name))
	}
	f, err := fsys.Open(name)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBundle, err)
	}
	defer f.Close()
	return l.add(name, stream{Reader: f})
}
