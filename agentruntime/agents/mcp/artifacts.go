package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

const (
	artifactDir = "artifacts" // in the agent's working directory
	// maxArtifactBytes bounds what one process of the agent writes, so that a
	// server cannot fill the disk.
	maxArtifactBytes = 256 << 20
)

var errArtifactsFull = errors.New("the limit for artifacts is reached")

// artifact refers to a file with a part of an output.
type artifact struct {
	URI   string `json:"uri"`  // artifact://sha256/<hex>
	Path  string `json:"path"` // relative to the agent's working directory
	Bytes int    `json:"bytes"`
}

// artifacts stores files under the hex SHA-256 of their bytes.
type artifacts struct {
	mu      sync.Mutex
	written int64
}

// put writes data unless its file exists.
func (a *artifacts) put(data []byte) (*artifact, error) {
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	ref := &artifact{URI: "artifact://sha256/" + name, Path: filepath.Join(artifactDir, name), Bytes: len(data)}
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.written+int64(len(data)) > maxArtifactBytes {
		return nil, errArtifactsFull
	}
	if err := os.MkdirAll(artifactDir, 0o700); err != nil {
		return nil, fmt.Errorf("make artifact directory: %w", err)
	}

	// The server may be able to write here too. os.Root stays inside the directory
	// whatever links the server makes, and a rename replaces anything that the
	// server put in the way.
	dir, err := os.OpenRoot(artifactDir)
	if err != nil {
		return nil, fmt.Errorf("open artifact directory: %w", err)
	}
	defer dir.Close()

	if err := dir.WriteFile(name+".part", data, 0o600); err != nil {
		return nil, fmt.Errorf("write artifact: %w", err)
	}
	if err := dir.Rename(name+".part", name); err != nil {
		return nil, fmt.Errorf("name artifact: %w", err)
	}

	a.written += int64(len(data))
	return ref, nil
}
