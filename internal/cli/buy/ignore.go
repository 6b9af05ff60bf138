package buy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"

	"github.com/lightwork-market/lightwork/market/tree"
)

// errNoGit: without git nobody reads .gitignore as its author meant it.
var errNoGit = errors.New("git is not installed")

// mostNames bounds the names that git lists for a folder, in bytes.
const mostNames = 256 << 20

// notIgnored lists the files below folder that its repository has or would take: those
// in its index, and those that no .gitignore, info/exclude or user's excludes file
// names. A folder needs no repository for that. git is asked with a repository of our
// own: the configuration of the folder's could name programs to run.
func notIgnored(ctx context.Context, folder string) (keep map[string]bool, err error) {
	if _, err := exec.LookPath("git"); err != nil {
		return nil, errNoGit
	}
	folder, err = filepath.Abs(folder)
	if err == nil {
		folder, err = filepath.EvalSymlinks(folder)
	}
	if err != nil {
		return nil, err
	}
	own, err := os.MkdirTemp("", "lightwork-git-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(own)
	if _, err := git(ctx, own, nil, "init", "-q", "--template=", own); err != nil {
		return nil, err
	}

	keep = map[string]bool{}
	top, repository := repositoryOf(folder)
	if err := addNotIgnored(ctx, keep, own, folder, top, repository, ""); err != nil || len(keep) > 0 {
		return keep, err
	}
	// The repository around it ignores the whole folder, which was named all the same.
	return keep, addNotIgnored(ctx, keep, own, folder, folder, "", "")
}

// addNotIgnored adds the files of a folder, which is in the work tree top of a
// repository, and of its submodules. Their names begin with at.
func addNotIgnored(ctx context.Context, keep map[string]bool, own, folder, top, repository, at string) error {
	args := []string{"--git-dir=" + filepath.Join(own, ".git"), "--work-tree=" + top, "ls-files", "-z", "--cached", "--others", "--exclude-standard"}
	if exclude := filepath.Join(repository, "info", "exclude"); repository != "" && isFile(exclude) {
		args = append(args, "--exclude-from="+exclude)
	}
	var env []string
	if index := filepath.Join(repository, "index"); repository != "" && isFile(index) {
		env = append(env, "GIT_INDEX_FILE="+index)
	}
	list, err := git(ctx, folder, env, args...)
	if err != nil {
		return err
	}

	for name := range strings.SplitSeq(string(list), "\x00") {
		if name == "" {
			continue
		}
		name = strings.TrimSuffix(name, "/")
		info, err := os.Lstat(filepath.Join(folder, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist): // it was deleted since it was committed
		case err != nil:
			return err
		case info.IsDir(): // a submodule, or a repository within
			below := filepath.Join(folder, filepath.FromSlash(name))
			top, repository := repositoryOf(below)
			if err := addNotIgnored(ctx, keep, own, below, top, repository, path.Join(at, name)); err != nil {
				return err
			}
		case len(keep) == tree.MaxEntries:
			return &tree.LimitError{What: "files, folders and links", Most: tree.MaxEntries}
		default:
			keep[path.Join(at, name)] = true
		}
	}

	return nil
}

// repositoryOf finds the work tree that a folder is in, and the folder of its
// repository; the folder itself and "" if it is in none.
func repositoryOf(folder string) (top, repository string) {
	for top = folder; ; top = filepath.Dir(top) {
		dot := filepath.Join(top, ".git")
		if info, err := os.Stat(dot); err == nil {
			if info.IsDir() {
				return top, dot
			}
			return top, linkedRepository(dot)
		}
		if top == filepath.Dir(top) {
			return folder, ""
		}
	}
}

// linkedRepository reads the .git file of a submodule or of a further work tree; "" if it
// names no folder.
func linkedRepository(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, 8<<10))
	name, ok := strings.CutPrefix(strings.TrimSpace(string(text)), "gitdir: ")
	if err != nil || !ok {
		return ""
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(filepath.Dir(file), name)
	}
	return name
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}

// git runs git in a folder, without what an outer git may have set, and returns its
// output.
func git(ctx context.Context, folder string, env []string, args ...string) ([]byte, error) {
	var out, told bytes.Buffer
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, &bounded{&out, mostNames}, &bounded{&told, 4 << 10}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, append(env, "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")...)
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("git lists no files of it: %w: %s", err, strings.TrimSpace(told.String()))
	}
	return out.Bytes(), nil
}

// bounded is a buffer that takes so many bytes.
type bounded struct {
	to   *bytes.Buffer
	left int
}

var errTooMuch = errors.New("too much output")

func (b *bounded) Write(p []byte) (int, error) {
	if len(p) > b.left {
		return 0, errTooMuch
	}
	b.left -= len(p)
	return b.to.Write(p)
}
