package buy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/cli/app"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/schemas"
)

// read gets what is to be sent: a request document, or the files of a folder.
func (b buyerSubmitCmd) read(ctx context.Context, s *app.Streams) (document []byte, files sent, err error) {
	if b.Input == "-" {
		document, err = io.ReadAll(io.LimitReader(s.In, schemas.MaxRequestBytes+1))
		return document, sent{}, err
	}
	if b.Input != "" {
		f, err := os.Open(b.Input)
		if err != nil {
			return nil, sent{}, advice.Usage("", "--input: %w", err)
		}
		defer f.Close()
		document, err = io.ReadAll(io.LimitReader(f, schemas.MaxRequestBytes+1))
		return document, sent{}, err
	}

	if b.Prompt != "" {
		document, err = json.Marshal(map[string]string{"prompt": b.Prompt})
		return document, sent{}, err
	}
	if len(b.InputJob) > 0 {
		return nil, sent{}, nil // it is the document
	}
	if b.Schema != string(schemas.SandboxRun) {
		return nil, sent{}, advice.Usage("lightwork schemas show "+b.Schema+" tells its form", "--input is needed for %s", b.Schema)
	}
	if len(b.Cmd) == 0 {
		return nil, sent{}, advice.Usage("for example --cmd 'make test'", "at least one --cmd is needed")
	}
	if b.Repo == "" {
		return nil, sent{}, nil
	}

	files, err = b.pack(ctx, s.Err)
	return nil, files, err
}

// pack packs --repo, if it fits a request, and says what becomes public by that.
func (b buyerSubmitCmd) pack(ctx context.Context, w io.Writer) (sent, error) {
	keep, err := notIgnored(ctx, b.Repo)
	switch {
	case errors.Is(err, errNoGit):
		fmt.Fprintln(w, "lightwork: no git here to read .gitignore: all files of", display.Printable(b.Repo), "but .git are taken")
	case err != nil:
		return sent{}, notPacked(err)
	}
	folder := os.DirFS(b.Repo)
	secrets, err := findSecrets(folder, keep)
	if err != nil {
		return sent{}, notPacked(err)
	}
	if len(secrets) > 0 && !b.IncludeSecrets {
		return sent{}, advice.Usage("strangers read what is sent; name them in .gitignore, move them out of the folder, or send them with --include-secrets",
			"--repo has files that are named like secrets: %s", strings.Join(secrets, ", "))
	}

	p, err := PackFS(folder, keep)
	if errors.Is(err, errLarge) {
		return sent{large: true, folder: folder, keep: keep}, b.takesTree()
	}
	if err != nil {
		return sent{}, notPacked(err)
	}
	verb := b.sentOrNot()
	if b.Encrypt {
		fmt.Fprintf(w, "lightwork: %s of %s, %d bytes (%d packed), %s encrypted; the provider reads them\n", display.Count(p.files, "file"), display.Printable(b.Repo), p.bytes, len(p.Archive), verb)
		return sent{archive: p.Archive}, nil
	}
	fmt.Fprintf(w, "lightwork: PUBLIC: %s of %s, %d bytes (%d packed), %s to the relays, where anybody can read them\n",
		display.Count(p.files, "file"), display.Printable(b.Repo), p.bytes, len(p.Archive), verb)
	return sent{archive: p.Archive}, nil
}

// sentOrNot says whether files are sent, or would be.
func (b buyerSubmitCmd) sentOrNot() string {
	if b.DryRun || b.Explain {
		return "would be sent"
	}
	return "are sent"
}

// order is what the flags say to buy, from anybody.
func (b buyerSubmitCmd) order(document []byte, files sent, inputs []buyer.Input) (buyer.Order, error) {
	o := buyer.Order{
		SchemaID: b.Schema, Input: document, Inputs: inputs, MaxMsats: b.MaxMsats, Mode: b.Mode, Delivery: b.Delivery,
		PayeeNode: b.Payee, Refund: b.Refund, Plain: b.Outside, Encrypt: b.Encrypt,
	}
	if document != nil || len(inputs) > 0 {
		return o, nil
	}
	var err error
	o.Input, err = b.request(files)
	o.Tree, o.Toolchain = files.tree, b.Image == ""
	return o, err
}

// checkDocument says what is wrong with the document before anybody is looked for.
// One that is the result of an earlier job is read later.
func (b buyerSubmitCmd) checkDocument(document []byte, files sent) error {
	s, ok := schemas.Lookup(b.Schema)
	if len(b.InputJob) > 0 || !ok {
		return nil
	}
	o, err := b.order(document, files, nil)
	if err != nil {
		return err
	}
	if _, err := s.ParseRequest(o.Input); err != nil {
		return b.noCandidates(&buyer.RequestError{Err: err})
	}

	return nil
}

// request makes the document of the flags. Without an image it is for the
// provider's own toolchain, whose digest is still to be filled in.
func (b buyerSubmitCmd) request(files sent) ([]byte, error) {
	timeout, memory := jobTimeout, int64(jobMemory)
	if b.Timeout != nil {
		timeout = *b.Timeout
	}
	if b.Memory != nil {
		memory = *b.Memory
	}
	kind, digest := schemas.HostProvider, hashing.Digest{}.String()
	if b.Image != "" {
		kind, digest = schemas.DockerProvider, b.Image
	}
	repo := schemas.SandboxRepo{MountPath: Workspace, Source: b.Git, GitRef: b.Commit}
	if files.archive != nil {
		repo.Source = schemas.InlineArchive(files.archive)
	}
	if files.tree != nil {
		repo.Tree = files.tree.Draft()
	}
	return SandboxDocument(kind, digest, repo, b.Cmd, b.Network, timeout, memory, b.verification())
}

// verification is what the flags state of how the result is judged; the defaults
// of the rest apply.
func (b buyerSubmitCmd) verification() map[string]any {
	stated := map[string]any{}
	if b.ExpectSuccess {
		stated["expected"] = map[string]any{"exit_codes": make([]int, len(b.Cmd))}
	}
	if b.CompareStdout {
		stated["compare_stdout"] = true
	}
	return stated
}

// Workspace is where commands find the files they are about.
const Workspace = "/workspace"

// spareDiskMB is disk for a job beside its files, in MiB.
const spareDiskMB = 256

// SandboxDocument makes a request.
func SandboxDocument(kind, digest string, repo schemas.SandboxRepo, cmds []string, network string, timeout time.Duration, memoryMB int64, verification map[string]any) ([]byte, error) {
	image, err := hashing.ParseDigest(digest)
	switch {
	case err != nil && kind == schemas.HostProvider:
		return nil, advice.Usage("name one of its images with --image", "the provider announces no host image")
	case err != nil:
		return nil, advice.Usage("sha256: and 64 hex digits", "--image: %w", err)
	}

	commands := make([]schemas.SandboxCommand, len(cmds))
	for i, c := range cmds {
		commands[i].Cmd = c
	}
	resources := schemas.SandboxResources{MemoryMB: memoryMB, CPUs: 1, TimeoutSecs: int64((timeout + time.Second - 1) / time.Second)}
	if repo.Tree != nil { // once more as much as the files, for what the commands make of them
		resources.DiskMB = 2*(repo.Tree.Size>>20) + spareDiskMB
	}
	doc := map[string]any{
		"sandbox": schemas.Sandbox{Provider: kind, ImageDigest: image, NetworkPolicy: network, Resources: resources},
		"repo":    repo, "commands": commands,
	}
	if len(verification) > 0 {
		doc["verification"] = verification
	}
	return json.Marshal(doc)
}
