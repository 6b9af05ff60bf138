package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox/images"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/schemas"
)

// maxImageTop bounds the names in the root of an image.
const maxImageTop = 256

// rootOf returns the root file system for a request: the path of a registered
// image, or "" for the host's own toolchain.
func rootOf(req *schemas.SandboxRunRequest, opts Options) (image string, err error) {
	if req.Sandbox.Provider == schemas.HostProvider {
		_, host, err := HostManifest()
		if err != nil {
			return "", err
		}
		return "", requestError(req.CheckImage(host, nil))
	}

	openErr := images.ErrNotRegistered
	err = req.CheckImage("", func(digest string) bool {
		d, err := hashing.ParseDigest(digest)
		if err == nil && opts.ImageDir != "" {
			image, openErr = images.Open(opts.ImageDir, d)
		}
		return openErr == nil
	})
	if err != nil && !errors.Is(openErr, images.ErrNotRegistered) {
		return "", openErr // the image is registered but damaged
	}
	return image, requestError(err)
}

// openImage opens the image while process 1 still has the agent's id, because only
// the operator may read the store. It returns nil for the host's toolchain.
func openImage(p *plan) (*os.File, error) {
	if p.Image == "" {
		return nil, nil
	}
	root, err := os.Open(p.Image)
	if err != nil {
		return nil, fmt.Errorf("open image: %w", err)
	}
	return root, nil
}

// bindImage mounts the entries of the image's root, except those that the sandbox
// provides itself and the place of the workspace.
func bindImage(p *plan, root *os.File) error {
	entries, err := root.ReadDir(maxImageTop + 1)
	if err != nil {
		return err
	}
	if len(entries) > maxImageTop {
		return fmt.Errorf("the image's root has more than %d names", maxImageTop)
	}

	workspace, _, _ := strings.Cut(p.MountPath[1:], "/")
	for _, e := range entries {
		if e.Name() == workspace || slices.Contains(providedDirs(), e.Name()) {
			continue
		}
		// Use the open directory: its path may be covered by now.
		from := filepath.Join(fmt.Sprintf("/proc/self/fd/%d", root.Fd()), e.Name())
		if err := show(from, filepath.Join(newRoot, e.Name())); err != nil {
			return err
		}
	}

	if _, err := os.Lstat(filepath.Join(newRoot, "etc")); errors.Is(err, fs.ErrNotExist) {
		return writeEtc(false)
	}
	return nil
}
