package wasm

import (
	"fmt"
	"slices"
	"sort"

	"github.com/lightwork-market/lightwork/agentruntime/internal/wasm/wit"
)

// capability is a kind of access that a WIT declares and a grant allows.
type capability string

const (
	capCall   capability = "call" // the call itself: input, output, exit
	capFS     capability = "fs"
	capEnv    capability = "env"
	capStdio  capability = "stdio"
	capClock  capability = "clock"
	capRandom capability = "random"
	capKV     capability = "kv"
)

const (
	wasiModule  = "wasi_snapshot_preview1"
	kvInterface = "agentos:kv/store"
)

// interfaces maps each WIT interface to its capability. Other interfaces, such as
// sockets and HTTP, cannot be provided.
var interfaces = map[string]capability{
	"wasi:filesystem/types":       capFS,
	"wasi:filesystem/preopens":    capFS,
	"wasi:cli/environment":        capEnv,
	"wasi:cli/stderr":             capStdio,
	"wasi:clocks/wall-clock":      capClock,
	"wasi:clocks/monotonic-clock": capClock,
	"wasi:random/random":          capRandom,
	kvInterface:                   capKV,
}

// preview1 maps each function of WASI preview 1 to the capability that it needs.
// Sockets are missing on purpose.
var preview1 = map[string]capability{
	"args_get": capCall, "args_sizes_get": capCall, "proc_exit": capCall, "sched_yield": capCall,
	"fd_read": capCall, "fd_write": capCall, "fd_close": capCall, "fd_seek": capCall,
	"fd_fdstat_get": capCall, "fd_fdstat_set_flags": capCall,
	// These two list open directories; without a grant there are none.
	"fd_prestat_get": capCall, "fd_prestat_dir_name": capCall,

	"environ_get": capEnv, "environ_sizes_get": capEnv,
	"clock_res_get": capClock, "clock_time_get": capClock, "poll_oneoff": capClock,
	"random_get": capRandom,

	"fd_advise": capFS, "fd_allocate": capFS, "fd_datasync": capFS, "fd_fdstat_set_rights": capFS,
	"fd_filestat_get": capFS, "fd_filestat_set_size": capFS, "fd_filestat_set_times": capFS,
	"fd_pread": capFS, "fd_pwrite": capFS, "fd_readdir": capFS, "fd_renumber": capFS,
	"fd_sync": capFS, "fd_tell": capFS,
	"path_create_directory": capFS, "path_filestat_get": capFS, "path_filestat_set_times": capFS,
	"path_link": capFS, "path_open": capFS, "path_readlink": capFS, "path_remove_directory": capFS,
	"path_rename": capFS, "path_symlink": capFS, "path_unlink_file": capFS,
}

func interfacesOf(c capability) []string {
	var all []string
	for name, of := range interfaces {
		if of == c {
			all = append(all, name)
		}
	}
	sort.Strings(all)
	return all
}

// declaration is the set of imports of a WIT world.
type declaration struct {
	has map[capability]bool
	kv  []string // allowed module names for importing the store
}

func declare(ids []wit.ID) (declaration, error) {
	d := declaration{has: map[capability]bool{capCall: true}}
	for _, id := range ids {
		c, ok := interfaces[id.Unversioned()]
		if !ok {
			return d, fmt.Errorf("wasm: import %s cannot be provided", id)
		}
		d.has[c] = true
		if c == capKV {
			d.kv = []string{id.Unversioned(), id.String()}
		}
	}

	return d, nil
}

// check checks the imports of a module against the declaration (AP-13.1.2).
func (d declaration) check(imports []moduleImport) error {
	for _, imp := range imports {
		refuse := func(reason string) error { return &ImportError{imp.module, imp.name, reason} }
		if imp.kind != kindFunc {
			return refuse("only functions can be imported")
		}

		switch {
		case imp.module == wasiModule:
			c, ok := preview1[imp.name]
			switch {
			case !ok:
				return refuse("is never provided")
			case !d.has[c]:
				return refuse(fmt.Sprintf("the WIT does not import %v", interfacesOf(c)))
			}
		case slices.Contains(d.kv, imp.module):
			if !slices.Contains(kvFuncs[:], imp.name) {
				return refuse("is not a function of the store")
			}
		default:
			return refuse("the WIT does not declare it")
		}
	}

	return nil
}
