package sandbox

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/lightwork-market/lightwork/hashing"
)

// manifestTools are the programs on whose exact bytes the results of a host run
// depend most.
func manifestTools() []string {
	return []string{
		"sh", "bash", "busybox", "cat", "ls", "cp", "sort", "uniq", "wc", "head", "tr", "cut", "env", "sha256sum",
		"awk", "sed", "grep", "find", "xargs", "diff", "tar", "gzip", "make", "git", "gcc", "cc", "ld", "as",
		"go", "python3", "perl", "node", "jq",
	}
}

const maxToolBytes = 512 << 20

type hostManifest struct {
	Version int        `json:"version"`
	OS      hostOS     `json:"os"`
	Arch    string     `json:"arch"`
	Libc    []hostFile `json:"libc"`
	Tools   []hostFile `json:"tools"`
}

type hostOS struct {
	ID        string `json:"id"`
	VersionID string `json:"version_id"`
}

type hostFile struct {
	Name   string         `json:"name"`
	Path   string         `json:"path"` // all symlinks resolved
	SHA256 hashing.Digest `json:"sha256"`
}

// manifest is computed once per process, because hashing the tools takes a while.
var manifest = sync.OnceValues(func() ([]byte, error) {
	onHost.stamps = hostStamps()
	doc, err := describeHost()
	onHost.doc = doc
	return doc, err
})

func describeHost() ([]byte, error) {
	doc, err := hashing.CanonicalValue(readManifest())
	if err != nil {
		return nil, fmt.Errorf("host manifest: %w", err)
	}
	return doc, nil
}

// HostManifest describes the toolchain of provider "host" as the sandbox sees it:
// operating system, architecture, C library and those programs of a fixed list that
// exist, each with its SHA-256. doc is canonical JSON; digest ("sha256:<hex>") is
// its hash, which a request gives as image_digest.
func HostManifest() (doc []byte, digest string, err error) {
	doc, err = manifest()
	if err != nil {
		return nil, "", err
	}
	return doc, hashing.Bytes(doc).String(), nil
}

func readManifest() hostManifest {
	m := hostManifest{Version: 1, Arch: runtime.GOARCH, OS: readOS("/etc/os-release"), Libc: []hostFile{}, Tools: []hostFile{}}
	hashed := map[string]hashing.Digest{}
	eachHostFile(func(name, path string) {
		if f, ok := hashTool(name, path, hashed); ok && !hasFile(m.Libc, f) {
			m.Libc = append(m.Libc, f)
		}
	}, func(name, path string) bool {
		f, ok := hashTool(name, path, hashed)
		if ok {
			m.Tools = append(m.Tools, f)
		}
		return ok
	})
	return m
}

// eachHostFile calls libc for each C library, and tool with the possible paths of
// each tool until it accepts one.
func eachHostFile(libc func(name, path string), tool func(name, path string) bool) {
	for _, pattern := range []string{"/lib/*/libc.so.6", "/lib64/libc.so.6", "/lib/libc.so.6", "/lib/ld-musl-*.so.1"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			continue
		}
		for _, path := range found {
			libc(filepath.Base(path), path)
		}
	}

	for _, name := range manifestTools() {
		for dir := range strings.SplitSeq(searchPath, ":") {
			if tool(name, filepath.Join(dir, name)) {
				break
			}
		}
	}
}

func hasFile(files []hostFile, f hostFile) bool {
	for _, g := range files {
		if g.Path == f.Path {
			return true
		}
	}
	return false
}

// hashTool skips files that do not exist, are not executable, or are invisible in
// the sandbox: jobs cannot use a tool under /home or /opt.
func hashTool(name, path string, hashed map[string]hashing.Digest) (hostFile, bool) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || !visible(real) {
		return hostFile{}, false
	}
	digest, ok := hashed[real]
	if !ok {
		if digest, err = hashFile(real); err != nil {
			return hostFile{}, false
		}
		hashed[real] = digest
	}

	return hostFile{Name: name, Path: real, SHA256: digest}, true
}

func visible(path string) bool {
	for _, dir := range systemDirs() {
		if strings.HasPrefix(path, "/"+dir+"/") {
			return true
		}
	}
	return false
}

func hashFile(path string) (hashing.Digest, error) {
	f, err := os.Open(path)
	if err != nil {
		return hashing.Digest{}, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return hashing.Digest{}, err
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 && !strings.Contains(path, "libc") || info.Size() > maxToolBytes {
		return hashing.Digest{}, errors.New("not an executable file")
	}

	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return hashing.Digest{}, err
	}
	return hashing.Digest(sum.Sum(nil)), nil
}

// readOS reads the two fields that identify a release; the others change with every
// change of a web address.
func readOS(path string) hostOS {
	f, err := os.Open(path)
	if err != nil {
		return hostOS{ID: "unknown"}
	}
	defer f.Close()

	o := hostOS{ID: "unknown"}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), "=")
		value = strings.ToValidUTF8(strings.Trim(value, `"'`), "?")
		switch key {
		case "ID":
			o.ID = value
		case "VERSION_ID":
			o.VersionID = value
		}
	}

	return o
}

// HostChanged reports whether the host's toolchain differs from the one that
// HostManifest describes, because a package was upgraded since. Jobs would then run
// with other tools than their digest promises.
func HostChanged() (bool, error) {
	if _, err := manifest(); err != nil {
		return false, err
	}
	return onHost.changed(hostStamps, describeHost)
}

// hostWatch compares the toolchain with its state at the start.
type hostWatch struct {
	mu     sync.Mutex
	doc    []byte   // the first description
	stamps []string // of the files, when they were last read
	other  bool     // whether the last description differed
}

var onHost hostWatch

// changed reads the files again only if a stamp changed, because hashing takes a
// while.
func (w *hostWatch) changed(look func() []string, describe func() ([]byte, error)) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	now := look()
	if slices.Equal(now, w.stamps) {
		return w.other, nil
	}

	doc, err := describe()
	if err != nil {
		return false, err
	}
	w.stamps, w.other = now, !bytes.Equal(doc, w.doc)
	return w.other, nil
}

// hostStamps returns the stamps of the files that HostManifest hashes.
func hostStamps() []string {
	all := []string{stampOf("os-release", "/etc/os-release")}
	eachHostFile(func(name, path string) {
		all = append(all, stampOf(name, path))
	}, func(name, path string) bool {
		stamp := stampOf(name, path)
		if stamp != "" {
			all = append(all, stamp)
		}
		return stamp != ""
	})
	return all
}

// stampOf changes when a file is written or replaced, or its symlinks are; it is ""
// if there is no file.
func stampOf(name, path string) string {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	st, err := os.Stat(real)
	if err != nil {
		return ""
	}
	var inode uint64
	var changed syscall.Timespec
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		inode, changed = sys.Ino, sys.Ctim
	}
	return fmt.Sprintln(name, real, st.Size(), inode, changed)
}
