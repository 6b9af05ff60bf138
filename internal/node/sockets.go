package node

import (
	"os"
	"path/filepath"
	"slices"

	"github.com/lightwork-market/lightwork/agentruntime/host"
	"github.com/lightwork-market/lightwork/hashing"
)

// agentSocketDir is where the agents' sockets live: beside the node's own, or
// where an agent has another account, which cannot enter the node's folders, in
// a folder that all may pass through. Each socket is its agent's alone there too.
func agentSocketDir(dataDir string, installed []host.Installed) string {
	another := slices.ContainsFunc(installed, func(in host.Installed) bool { return in.UID != 0 || in.GID != 0 })
	if !another || os.Geteuid() != 0 {
		return socketDir(dataDir)
	}
	base := "/run" // root alone makes folders there
	if st, err := os.Stat(base); err != nil || !st.IsDir() {
		base = os.TempDir()
	}
	return socketDirIn(base, dataDir)
}

// leaveSocketDir removes what agentSocketDir has outside the node's own folders,
// once no socket is left in it. The node's lock is still held: no other is about
// to use it.
func leaveSocketDir(dataDir string, installed []host.Installed) {
	if dir := agentSocketDir(dataDir, installed); dir != socketDir(dataDir) {
		_ = os.Remove(dir) // refused while there is anything in it
	}
}

// socketDir is where agents' sockets live: in the data folder, or where that
// path is too long for a socket address, in a folder of its own under the
// system's temporary one.
func socketDir(dataDir string) string {
	dir := filepath.Join(dataDir, "run")
	const most = 90
	if abs, err := filepath.Abs(dir); err == nil && len(abs) <= most {
		return abs
	}
	return socketDirIn(os.TempDir(), dir)
}

// socketDirIn is the folder in base that stands for dir.
func socketDirIn(base, dir string) string {
	return filepath.Join(base, "lightwork-"+hashing.Bytes([]byte(dir)).Hex()[:16])
}
