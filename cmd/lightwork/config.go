package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

var errNoConfig = errors.New("no configuration")

// configMax bounds the configuration file.
const configMax = 1 << 20

// config is lightwork.yaml. Paths are relative to the file's own folder.
type config struct {
	Version  int            `yaml:"version"`
	Node     nodeConfig     `yaml:"node"`
	Identity identityConfig `yaml:"identity"`
	Relays   []string       `yaml:"relays"`
	// Blobs are the Blossom servers results are put on; by default the relays'
	// own, at http(s) instead of ws(s).
	Blobs    []string       `yaml:"blobs"`
	Relay    relayConfig    `yaml:"relay"`
	Provider providerConfig `yaml:"provider"`
	Buyer    buyerConfig    `yaml:"buyer"`
	Sandbox  sandboxConfig  `yaml:"sandbox"`
	Agents   []agentConfig  `yaml:"agents"`

	dir string // of the file
}

type nodeConfig struct {
	Name    string `yaml:"name"`
	DataDir string `yaml:"data_dir"`
}

// identityConfig names files; secrets are never in the configuration itself.
type identityConfig struct {
	ProviderKeyFile string `yaml:"provider_key_file"`
	BuyerKeyFile    string `yaml:"buyer_key_file"`
	RootSecretFile  string `yaml:"root_secret_file"`
}

type relayConfig struct {
	Listen    string `yaml:"listen"`
	PublicURL string `yaml:"public_url"`
}

type walletConfig struct {
	Backend string           `yaml:"backend"` // play, lnd or none
	Play    playWalletConfig `yaml:"play"`
	LND     lndConfig        `yaml:"lnd"`
}

type playWalletConfig struct {
	URL       string `yaml:"url"`
	TokenFile string `yaml:"token_file"`
}

type lndConfig struct {
	Address      string           `yaml:"address"`
	TLSCertFile  string           `yaml:"tls_cert_file"`
	MacaroonFile string           `yaml:"macaroon_file"`
	Network      payments.Network `yaml:"network"`
}

// agentConfig is an installed agent: a folder with a manifest that the
// operator has approved.
type agentConfig struct {
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

type offerConfig struct {
	Schema         string          `yaml:"schema"`
	Tool           string          `yaml:"tool"` // AGENT/TOOL that does the job; the built-in one by default
	Modes          []receipts.Mode `yaml:"modes"`
	BaseMsats      int64           `yaml:"base_msats"`
	PerMinuteMsats int64           `yaml:"per_minute_msats"`
}

type limitsConfig struct {
	Concurrent     int           `yaml:"concurrent"`
	Queue          int           `yaml:"queue"`
	QueuePerBuyer  int           `yaml:"queue_per_buyer"`
	Unpaid         int           `yaml:"unpaid"`
	UnpaidPerBuyer int           `yaml:"unpaid_per_buyer"`
	HeldPerBuyer   int           `yaml:"held_per_buyer"`
	QuoteTTL       time.Duration `yaml:"quote_ttl"`
}

type providerConfig struct {
	About   string        `yaml:"about"`
	Picture string        `yaml:"picture"`
	Website string        `yaml:"website"`
	LUD16   string        `yaml:"lud16"`
	Wallet  walletConfig  `yaml:"wallet"`
	Offers  []offerConfig `yaml:"offers"`
	Limits  limitsConfig  `yaml:"limits"`
}

type buyerConfig struct {
	Wallet        walletConfig    `yaml:"wallet"`
	DayMsats      int64           `yaml:"max_msats_per_day"`
	ProviderMsats int64           `yaml:"max_msats_per_provider_and_day"`
	Modes         []receipts.Mode `yaml:"modes"`
}

type sandboxConfig struct {
	Images []string `yaml:"images"` // registered image digests, sha256:<hex>
}

// loadConfig reads and checks a configuration file. Errors name the line.
func loadConfig(path string) (*config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("lightwork init writes one; -c names another file", "%w at %s", errNoConfig, path)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if st, err := f.Stat(); err != nil || st.Size() > configMax {
		return nil, usage("", "%s is larger than %d bytes", path, configMax)
	}
	c := &config{dir: filepath.Dir(path)}
	if err := yaml.NewDecoder(f, yaml.Strict()).Decode(c); err != nil {
		return nil, usage("", "%s: %s", path, strings.TrimSpace(yaml.FormatError(err, false, true)))
	}
	if bad := c.check(); bad != nil {
		return nil, usage("", "%s", bad.locate(path))
	}
	return c, nil
}

// configError is a value that cannot be used, by its path in the file.
type configError struct {
	path string // YAMLPath, for example $.relays[0]
	why  string
}

// locate says file:line:column, what is wrong, and shows the place.
func (e *configError) locate(file string) string {
	what := fmt.Sprintf("%s: %s", strings.TrimPrefix(e.path, "$."), e.why)
	src, err := os.ReadFile(file)
	if err != nil {
		return file + ": " + what
	}
	at, err := yaml.PathString(e.path)
	if err != nil {
		return file + ": " + what
	}
	doc, err := parser.ParseBytes(src, 0)
	if err != nil {
		return file + ": " + what
	}
	node, err := at.FilterFile(doc)
	if err != nil { // the value is missing: there is no place to show
		return file + ": " + what
	}
	pos := node.GetToken().Position
	shown, err := at.AnnotateSource(src, false)
	if err != nil {
		shown = nil
	}
	return fmt.Sprintf("%s:%d:%d: %s\n%s", file, pos.Line, pos.Column, what, shown)
}

func (c *config) check() *configError {
	if c.Version != 1 {
		return &configError{"$.version", "must be 1"}
	}
	if len(c.Relays) == 0 {
		return &configError{"$.relays", "at least one relay is needed"}
	}
	for i, r := range c.Relays {
		if u, err := url.Parse(r); err != nil || u.Scheme != "ws" && u.Scheme != "wss" || u.Host == "" {
			return &configError{fmt.Sprintf("$.relays[%d]", i), "must be a ws:// or wss:// address"}
		}
	}
	for i, b := range c.Blobs {
		if u, err := url.Parse(b); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return &configError{fmt.Sprintf("$.blobs[%d]", i), "must be an http:// or https:// address"}
		}
	}
	if bad := c.Provider.Wallet.check("$.provider.wallet"); bad != nil {
		return bad
	}
	if bad := c.Buyer.Wallet.check("$.buyer.wallet"); bad != nil {
		return bad
	}
	for i, o := range c.Provider.Offers {
		at := fmt.Sprintf("$.provider.offers[%d]", i)
		s, ok := schemas.Lookup(o.Schema)
		switch {
		case !ok:
			return &configError{at + ".schema", "unknown job type; lightwork schemas list shows them"}
		case !s.Executable && o.Tool == "":
			return &configError{at + ".schema", "no built-in agent does this job; name one under tool (AGENT/TOOL)"}
		case o.Tool != "" && !validToolID(o.Tool):
			return &configError{at + ".tool", "must be AGENT/TOOL"}
		case len(o.Modes) == 0:
			return &configError{at + ".modes", "name at least one of hold, prepay, postpay, free"}
		case o.BaseMsats < 0:
			return &configError{at + ".base_msats", "a price cannot be negative"}
		case o.PerMinuteMsats < 0:
			return &configError{at + ".per_minute_msats", "a price cannot be negative"}
		}
		if bad := checkModes(at+".modes", o.Modes); bad != nil {
			return bad
		}
	}
	if bad := c.checkAgents(); bad != nil {
		return bad
	}
	return checkModes("$.buyer.modes", c.Buyer.Modes)
}

func validToolID(id string) bool {
	_, _, ok := wire.ToolID(id).Split()
	return ok
}

func (c *config) checkAgents() *configError {
	for i, a := range c.Agents {
		at := fmt.Sprintf("$.agents[%d]", i)
		switch {
		case a.Dir == "":
			return &configError{at, "dir is needed: the folder with opensentience.agent.json"}
		case a.UID < 0 || a.GID < 0:
			return &configError{at, "uid and gid cannot be negative"}
		}
		for j, name := range a.Tools {
			if !wire.ValidToolName(name) {
				return &configError{fmt.Sprintf("%s.tools[%d]", at, j), "must be a tool's name, without its agent"}
			}
		}
		for j, name := range a.EnvFrom {
			if name == "" || strings.ContainsAny(name, "=\x00") || strings.HasPrefix(name, "OPENSENTIENCE_") {
				return &configError{fmt.Sprintf("%s.env_from[%d]", at, j), "must be the name of a variable, and not one of the protocol's"}
			}
		}
	}
	return nil
}

func checkModes(path string, modes []receipts.Mode) *configError {
	for i, m := range modes {
		switch m {
		case receipts.ModeHold, receipts.ModePrepay, receipts.ModePostpay, receipts.ModeFree:
		default:
			return &configError{fmt.Sprintf("%s[%d]", path, i), "must be hold, prepay, postpay or free"}
		}
	}
	return nil
}

func (w walletConfig) check(path string) *configError {
	switch w.Backend {
	case "", "none":
		return nil
	case "play":
		if w.Play.URL == "" || w.Play.TokenFile == "" {
			return &configError{path + ".play", "url and token_file are needed"}
		}
	case "lnd":
		if w.LND.Address == "" || w.LND.TLSCertFile == "" || w.LND.MacaroonFile == "" {
			return &configError{path + ".lnd", "address, tls_cert_file and macaroon_file are needed"}
		}
	default:
		return &configError{path + ".backend", "must be play, lnd or none"}
	}
	return nil
}

// path resolves a file name of the configuration.
func (c *config) path(name string) string {
	if name == "" || filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(c.dir, name)
}

// dataDir is where a role ("provider", "buyer", "relay", "play") keeps its
// state: one database each, so one process each.
func (c *config) dataDir(role string) string {
	dir := c.Node.DataDir
	if dir == "" {
		dir = "data"
	}
	return filepath.Join(c.path(dir), role)
}

// blobServers are the configured ones, or the relays themselves.
func (c *config) blobServers() []string {
	if len(c.Blobs) > 0 {
		return c.Blobs
	}
	var out []string
	for _, r := range c.Relays {
		out = append(out, "http"+strings.TrimPrefix(r, "ws"))
	}
	return out
}

func (c *config) offers() []provider.Offer {
	var out []provider.Offer
	for _, o := range c.Provider.Offers {
		out = append(out, provider.Offer{
			SchemaID: o.Schema, Modes: o.Modes, BaseMsats: o.BaseMsats, PerMinuteMsats: o.PerMinuteMsats,
		})
	}
	return out
}
