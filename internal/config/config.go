// Package config is lightwork.yaml: it reads the file, points at each mistake, and
// makes the text of a new one.
package config

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/lightwork-market/lightwork/internal/advice"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/internal/spending"
	"github.com/lightwork-market/lightwork/internal/yamlfile"
)

// DefaultFile is the file that is used unless another is named.
const DefaultFile = "lightwork.yaml"

// ErrNone is inside the error of a file that is not there.
var ErrNone = errors.New("no configuration")

// maxSize bounds the configuration file.
const maxSize = 1 << 20

// Config is lightwork.yaml. Paths are relative to the file's own folder.
type Config struct {
	Version  int      `yaml:"version"`
	Node     Node     `yaml:"node"`
	Identity Identity `yaml:"identity"`
	Relays   []string `yaml:"relays"`
	// Blobs are the Blossom servers results are put on; by default the relays'
	// own, at http(s) instead of ws(s).
	Blobs    []string `yaml:"blobs"`
	Relay    Relay    `yaml:"relay"`
	Observe  Observe  `yaml:"observe"`
	Alerts   Alerts   `yaml:"alerts"`
	Provider Provider `yaml:"provider"`
	// Retention is how long the provider keeps what it has of a job.
	Retention JobRetention `yaml:"retention"`
	Buyer     Buyer        `yaml:"buyer"`
	Sandbox   Sandbox      `yaml:"sandbox"`
	Agents    []Agent      `yaml:"agents"`
	Model     Model        `yaml:"model"`
	// Organism is a file of agents that think, tools and profiles.
	Organism string `yaml:"organism"`

	file string // its name, as it was given
	dir  string // of the file
	src  []byte // its text, to point into
}

// Node is the name of a node and the place of its state.
type Node struct {
	Name    string `yaml:"name"`
	DataDir string `yaml:"data_dir"`
}

// Identity names files; secrets are never in the configuration itself.
type Identity struct {
	ProviderKeyFile string `yaml:"provider_key_file"`
	BuyerKeyFile    string `yaml:"buyer_key_file"`
	RootSecretFile  string `yaml:"root_secret_file"`
	// Of key files that lightwork keys lock has locked.
	ProviderPassphraseFile string `yaml:"provider_passphrase_file"`
	BuyerPassphraseFile    string `yaml:"buyer_passphrase_file"`
}

// Agent is an installed agent: a folder with a manifest that the
// operator has approved.
type Agent struct {
	Dir     string   `yaml:"dir"`
	Tools   []string `yaml:"tools"`    // what may be called; nothing else has a route
	EnvFrom []string `yaml:"env_from"` // variables of the node's own environment to hand on
	UID     int      `yaml:"uid"`      // whose process it is; 0: the node's own user
	GID     int      `yaml:"gid"`
	Manual  bool     `yaml:"manual"` // started by lightwork agents start, not with the node
	// Read lists what the agent may read beside the system and its folder.
	Read []string `yaml:"read"`
	// Unconfined switches its confinement off.
	Unconfined bool `yaml:"unconfined"`
}

// Model is an endpoint with the OpenAI API; without one the built-in
// programs do the jobs on text.
type Model struct {
	BaseURL   string `yaml:"base_url"`
	AllowHTTP bool   `yaml:"allow_http"`
	KeyFile   string `yaml:"key_file"`
	KeyEnv    string `yaml:"key_env"`
	Name      string `yaml:"name"`  // of the model that analyses, ranks and chats
	Embed     string `yaml:"embed"` // of the model that embeds
}

// Load reads and checks a configuration file. Errors name line and column.
func Load(path string) (*Config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, advice.Usage(advice.SetUp+" writes one; "+advice.NameConfig+" names another file", "%w at %s", ErrNone, path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, advice.Usage(advice.OtherUser, "%w", err)
	}
	if err != nil {
		return nil, err
	}

	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if errors.Is(err, syscall.EISDIR) {
		return nil, advice.Usage("name the file in it: -c "+display.ShellWord(filepath.Join(path, DefaultFile)), "%s is a folder", path)
	}
	if err != nil {
		return nil, err
	}

	return Parse(src, path)
}

// Parse reads and checks the text of the file path.
func Parse(src []byte, path string) (*Config, error) {
	if len(src) > maxSize {
		return nil, advice.Usage("", "%s is larger than %d bytes", path, maxSize)
	}
	abs, err := filepath.Abs(path) // agents run in folders of their own
	if err != nil {
		return nil, err
	}

	c := &Config{file: path, dir: filepath.Dir(abs), src: src}
	var unread []located
	for _, p := range yamlfile.Decode(src, c) {
		one := located{Problem: p}
		if p.Empty {
			one.hint = advice.SetUpAgain + " writes a new one"
		}
		unread = append(unread, one)
	}

	err = problemsIn(path, unread)
	if err == nil { // what the values mean is known once all can be read
		err = c.ErrorOf(c.Check())
	}
	if err != nil {
		return nil, err
	}
	return c, nil
}

// In is a configuration that says nothing, of a folder.
func In(dir string) *Config { return &Config{dir: dir} }

// Path resolves a file name of the configuration.
func (c *Config) Path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.dir, name)
}

// DataDir is where a role ("provider", "buyer", "relay", "play") keeps its
// state: one database each, so one process each.
func (c *Config) DataDir(role string) string {
	dir := c.Node.DataDir
	if dir == "" {
		dir = "data"
	}
	return filepath.Join(c.Path(dir), role)
}

// Spending is the owner's word whether money may leave a wallet of this node.
func (c *Config) Spending() spending.Switch { return spending.In(c.DataDir("")) }

// SpendingStopped is nil while money may leave, else a [payments.ErrSpendingStopped] with
// the next step.
func (c *Config) SpendingStopped() error {
	return advice.Hint(c.Spending().Check(), advice.ResumeSpending+" lets money go again")
}

// BlobServers are the configured ones, or the relays themselves.
func (c *Config) BlobServers() []string {
	if len(c.Blobs) > 0 {
		return c.Blobs
	}
	var out []string
	for _, r := range c.Relays {
		out = append(out, "http"+strings.TrimPrefix(r, "ws"))
	}
	return out
}

// ImageDir is where a provider keeps registered images.
func (c *Config) ImageDir() string { return filepath.Join(c.DataDir("provider"), "images") }

// LocalBlobs reports whether the owner named a blob server on this machine:
// only then may blobs be fetched from loopback addresses.
func (c *Config) LocalBlobs() bool {
	for _, s := range c.BlobServers() {
		if u, err := url.Parse(s); err == nil {
			switch u.Hostname() {
			case "127.0.0.1", "::1", "localhost":
				return true
			}
		}
	}
	return false
}

// RunsRelay reports that the node's relays name its own, by the address that it listens
// on or by its public one: the node that uses it is to run it.
func (c *Config) RunsRelay() bool {
	own := []string{"ws://" + cmp.Or(c.Relay.Listen, DefaultRelayListen)}
	if public := c.Relay.PublicURL; public != "" { // http(s), as the relay's document says it
		own = append(own, "ws"+strings.TrimPrefix(public, "http"))
	}
	return slices.ContainsFunc(c.Relays, func(url string) bool {
		return slices.Contains(own, strings.TrimSuffix(url, "/"))
	})
}

// Observe is where the node can be looked at from this machine.
type Observe struct {
	Listen        string `yaml:"listen"`         // loopback only
	WalletBalance bool   `yaml:"wallet_balance"` // shown with the metrics
}

// OrganismFile is the configured file, "" if there is none.
func (c *Config) OrganismFile() string { return c.Path(c.Organism) }

// WalletOf is the wallet of a role.
func (c *Config) WalletOf(role string) Wallet {
	if role == "provider" {
		return c.Provider.Wallet
	}
	return c.Buyer.Wallet
}

// KeyFile is where a role's key is kept.
func (c *Config) KeyFile(role string) string {
	if role == "provider" {
		return c.Path(c.Identity.ProviderKeyFile)
	}
	return c.Path(c.Identity.BuyerKeyFile)
}

// PassphraseFile has the passphrase of a role's locked key; "" if none is named.
func (c *Config) PassphraseFile(role string) string {
	if role == "provider" {
		return c.Path(c.Identity.ProviderPassphraseFile)
	}
	return c.Path(c.Identity.BuyerPassphraseFile)
}
