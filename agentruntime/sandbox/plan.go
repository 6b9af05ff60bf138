package sandbox

// plan is what process 1 of the sandbox is told to do. Commands never see it.
type plan struct {
	Level Level `json:"level"`
	// Split says that process 1 has an id of its own beside the commands';
	// only root can map two ids.
	Split bool `json:"split"`
	// Apart says that process 1 and the commands have another user than the agent;
	// where there are no user namespaces only root can do that.
	Apart bool `json:"apart,omitempty"`
	// Image is the host's path of the root file system; empty: the host's own
	// toolchain.
	Image     string        `json:"image,omitempty"`
	MountPath string        `json:"mount_path"`
	Commands  []planCommand `json:"commands"`
	Env       []string      `json:"env"`
	DiskBytes int64         `json:"disk_bytes"`
	Inodes    int64         `json:"inodes"`
	// Artifacts and Tmp are where the commands put files, beside MountPath.
	Artifacts string `json:"artifacts"`
	Tmp       string `json:"tmp"`
	// Rlimits stand in for control groups, where there are none.
	Rlimits *rlimits `json:"rlimits,omitempty"`
	// Loopback brings lo up; without it not even 127.0.0.1 answers.
	Loopback bool `json:"loopback"`
	// Proxy makes a listener on the loopback device and sends it to the agent.
	Proxy bool `json:"proxy,omitempty"`
	// Certificates shows the authorities that the host trusts, in /etc.
	Certificates bool `json:"certificates,omitempty"`
	// Source says that a tar.gz for the workspace follows the plan.
	Source bool `json:"source"`
	// Summary asks for an artifact that tells what the commands changed in it.
	Summary bool `json:"summary,omitempty"`
}

type planCommand struct {
	Cmd            string `json:"cmd"`
	Dir            string `json:"dir"`
	ContinueOnFail bool   `json:"continue_on_fail"`
}

// rlimits are what the kernel holds of each process by itself, and CPUs the
// processors that all of them may run on.
type rlimits struct {
	DataBytes uint64 `json:"data_bytes"`
	FileBytes uint64 `json:"file_bytes,omitempty"` // 0: a file is as large as the disk allows
	OpenFiles uint64 `json:"open_files"`
	Tasks     uint64 `json:"tasks"`
	CPUs      int    `json:"cpus"`
}

// Ids inside the sandbox. Commands are nobody.
const (
	commandID = 65534
	splitID   = 0
)

// searchPath is the PATH of commands, and where HostManifest looks for tools.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/go/bin"
