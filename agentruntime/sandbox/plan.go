package sandbox

// plan is the task of process 1 of the sandbox. Commands never see it.
type plan struct {
	Level Level `json:"level"`
	// Split says that process 1 has another id than the commands; only root can map
	// two ids.
	Split bool `json:"split"`
	// Apart says that process 1 and the commands run as another user than the
	// agent; without user namespaces this needs root.
	Apart bool `json:"apart,omitempty"`
	// Image is the path of the root file system on the host; empty means the host's
	// own toolchain.
	Image     string        `json:"image,omitempty"`
	MountPath string        `json:"mount_path"`
	Commands  []planCommand `json:"commands"`
	Env       []string      `json:"env"`
	DiskBytes int64         `json:"disk_bytes"`
	Inodes    int64         `json:"inodes"`
	// Artifacts and Tmp are the other writable folders besides MountPath.
	Artifacts string `json:"artifacts"`
	Tmp       string `json:"tmp"`
	// Rlimits replace control groups where there are none.
	Rlimits *rlimits `json:"rlimits,omitempty"`
	// Loopback enables lo; without it not even 127.0.0.1 answers.
	Loopback bool `json:"loopback"`
	// Proxy makes process 1 listen on the loopback device and pass the listener to
	// the agent.
	Proxy bool `json:"proxy,omitempty"`
	// Certificates installs the authorities that the host trusts in /etc.
	Certificates bool `json:"certificates,omitempty"`
	// Source says that a tar.gz with the workspace follows the plan.
	Source bool `json:"source"`
	// Entries bounds the files of the workspace; 0 stands for the bound of an archive
	// in a request.
	Entries int64 `json:"entries,omitempty"`
	// Summary asks for an artifact that lists the changes of the commands to the
	// workspace.
	Summary bool `json:"summary,omitempty"`
}

type planCommand struct {
	Cmd            string `json:"cmd"`
	Dir            string `json:"dir"`
	ContinueOnFail bool   `json:"continue_on_fail"`
}

// rlimits bound each process by itself. CPUs is the number of processors for all of
// them together.
type rlimits struct {
	DataBytes uint64 `json:"data_bytes"`
	FileBytes uint64 `json:"file_bytes,omitempty"` // 0: only the disk limits a file
	OpenFiles uint64 `json:"open_files"`
	Tasks     uint64 `json:"tasks"`
	CPUs      int    `json:"cpus"`
}

// Ids inside the sandbox. Commands run as nobody.
const (
	commandID = 65534
	splitID   = 0
)

// searchPath is the PATH of commands. HostManifest looks for tools there.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"
