package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/sandbox"
	"github.com/lightwork-market/lightwork/internal/yamlfile"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/provider"
	"github.com/lightwork-market/lightwork/receipts"
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
	Observe  observeConfig  `yaml:"observe"`
	Provider providerConfig `yaml:"provider"`
	Buyer    buyerConfig    `yaml:"buyer"`
	Sandbox  sandboxConfig  `yaml:"sandbox"`
	Agents   []agentConfig  `yaml:"agents"`
	Model    modelConfig    `yaml:"model"`
	// Organism is a file of agents that think, tools and profiles.
	Organism string `yaml:"organism"`

	// level is how firmly the sandbox confines jobs here; empty before a node has
	// found it out, and where it cannot.
	level sandbox.Level

	dir string // of the file
	src []byte // its text, to point into
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
	// Of key files that lightwork keys lock has locked.
	ProviderPassphraseFile string `yaml:"provider_passphrase_file"`
	BuyerPassphraseFile    string `yaml:"buyer_passphrase_file"`
}

type walletConfig struct {
	Backend string           `yaml:"backend"` // play, lnd, nwc, cashu, onchain or none
	Play    playWalletConfig `yaml:"play"`
	LND     lndConfig        `yaml:"lnd"`
	NWC     nwcConfig        `yaml:"nwc"`
	Cashu   cashuConfig      `yaml:"cashu"`
	Onchain onchainConfig    `yaml:"onchain"`
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

// modelConfig is an endpoint with the OpenAI API; without one the built-in
// programs do the jobs on text.
type modelConfig struct {
	BaseURL   string `yaml:"base_url"`
	AllowHTTP bool   `yaml:"allow_http"`
	KeyFile   string `yaml:"key_file"`
	KeyEnv    string `yaml:"key_env"`
	Name      string `yaml:"name"`  // of the model that analyses, ranks and chats
	Embed     string `yaml:"embed"` // of the model that embeds
}

type offerConfig struct {
	Schema         string          `yaml:"schema"`
	Tool           string          `yaml:"tool"` // AGENT/TOOL that does the job; the built-in one by default
	Modes          []receipts.Mode `yaml:"modes"`
	BaseMsats      int64           `yaml:"base_msats"`
	PerMinuteMsats int64           `yaml:"per_minute_msats"`
	// Prices of 1000 tokens, and the most that a job may put out.
	InputMsats      int64 `yaml:"input_tokens_per_1k_msats"`
	OutputMsats     int64 `yaml:"output_tokens_per_1k_msats"`
	MaxOutputTokens int64 `yaml:"max_output_tokens"`
	// EngagementMsats is the fee for the attempt at a job that says what its result must be.
	EngagementMsats int64 `yaml:"engagement_msats"`
}

// table is the offer's price table.
func (o offerConfig) table() receipts.Price {
	return receipts.Price{
		BaseMsats: o.BaseMsats, PerMinuteMsats: o.PerMinuteMsats,
		InputMsats: o.InputMsats, OutputMsats: o.OutputMsats, MaxOutputTokens: o.MaxOutputTokens,
		EngagementMsats: o.EngagementMsats,
	}
}

type limitsConfig struct {
	Concurrent     int           `yaml:"concurrent"`
	Queue          int           `yaml:"queue"`
	QueuePerBuyer  int           `yaml:"queue_per_buyer"`
	Unpaid         int           `yaml:"unpaid"`
	UnpaidPerBuyer int           `yaml:"unpaid_per_buyer"`
	HeldPerBuyer   int           `yaml:"held_per_buyer"`
	QuoteTTL       time.Duration `yaml:"quote_ttl"`
	FreePoW        int           `yaml:"free_pow_bits"`
	ContextTokens  int           `yaml:"context_tokens"`
}

func (l limitsConfig) provider() provider.Limits {
	return provider.Limits{
		Concurrent: l.Concurrent, Queue: l.Queue, QueuePerBuyer: l.QueuePerBuyer, Unpaid: l.Unpaid, UnpaidPerBuyer: l.UnpaidPerBuyer,
		HeldPerBuyer: l.HeldPerBuyer, QuoteTTL: l.QuoteTTL, FreePoW: l.FreePoW, ContextTokens: l.ContextTokens,
	}
}

type providerConfig struct {
	About   string        `yaml:"about"`
	Picture string        `yaml:"picture"`
	Website string        `yaml:"website"`
	LUD16   string        `yaml:"lud16"`
	NIP05   string        `yaml:"nip05"`
	Wallet  walletConfig  `yaml:"wallet"`
	Offers  []offerConfig `yaml:"offers"`
	Limits  limitsConfig  `yaml:"limits"`
	// Kinds of request that are taken beside 5050.
	Kinds   []int        `yaml:"kinds"`
	Refunds refundConfig `yaml:"refunds"`
	Access  accessConfig `yaml:"access"`
	// Lifecycle names kinds for the events that NIP-SA proposes.
	Lifecycle lifecycleConfig `yaml:"lifecycle"`
}

type buyerConfig struct {
	Wallet        walletConfig `yaml:"wallet"`
	DayMsats      int64        `yaml:"max_msats_per_day"`
	ProviderMsats int64        `yaml:"max_msats_per_provider_and_day"`
	FeeMsats      int64        `yaml:"max_fee_msats"`
	// EngagementMsats is the most that is paid for an attempt; 0 pays none.
	EngagementMsats int64           `yaml:"max_engagement_msats"`
	Modes           []receipts.Mode `yaml:"modes"`
	// Approvals say what is paid without asking; none leaves it to --max-msats.
	Approvals []approvalConfig `yaml:"approvals"`
	// Judge chooses among several providers' results; none is no judging.
	Judge judgeConfig `yaml:"judge"`
}

type sandboxConfig struct {
	// FetchFrom are the servers that jobs may have repositories fetched from.
	FetchFrom []string `yaml:"fetch_from"`
	// CAFile holds further authorities for those servers.
	CAFile string `yaml:"ca_file"`
	// FullNetworkMB is what a job with the network policy "full" may send and
	// receive; 0 refuses such jobs.
	FullNetworkMB int64 `yaml:"full_network_mb"`
	// OpenedNetworks may be reached by such a job though they are not public.
	OpenedNetworks []string `yaml:"opened_networks"`
	// LeastConfinement is the weakest level that commands of buyers run at.
	LeastConfinement string `yaml:"least_confinement"`
}

// loadConfig reads and checks a configuration file. Errors name line and column.
func loadConfig(path string) (*config, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, usage("lightwork init writes one; -c names another file", "%w at %s", errNoConfig, path)
	}
	if errors.Is(err, fs.ErrPermission) {
		return nil, usage(otherUser, "%w", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, configMax+1))
	if errors.Is(err, syscall.EISDIR) {
		return nil, usage("name the file in it: -c "+shellWord(filepath.Join(path, defaultConfig)), "%s is a folder", path)
	}
	if err != nil {
		return nil, err
	}
	return parseConfig(src, path)
}

// parseConfig reads and checks the text of the file path.
func parseConfig(src []byte, path string) (*config, error) {
	if len(src) > configMax {
		return nil, usage("", "%s is larger than %d bytes", path, configMax)
	}
	abs, err := filepath.Abs(path) // agents run in folders of their own
	if err != nil {
		return nil, err
	}
	c := &config{dir: filepath.Dir(abs), src: src}
	found := problems{file: path}
	for _, p := range yamlfile.Decode(src, c) {
		one := problem{Problem: p}
		if p.Empty {
			one.hint = "lightwork init --force writes a new one"
		}
		found.list = append(found.list, one)
	}
	if len(found.list) == 0 { // what the values mean is known once all can be read
		for _, bad := range c.check() {
			found.list = append(found.list, problem{Problem: bad.problem(src)})
		}
	}
	if err := found.errorOf(); err != nil {
		return nil, err
	}
	return c, nil
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
			InputMsats: o.InputMsats, OutputMsats: o.OutputMsats, MaxOutputTokens: o.MaxOutputTokens,
			EngagementMsats: o.EngagementMsats,
		})
	}
	return out
}
