package config

import (
	"bytes"
	"net"
	"net/url"
	"text/template"

	"github.com/lightwork-market/lightwork/schemas"
)

// Setup is what a new node is made of.
type Setup struct {
	ProviderWallet, BuyerWallet string // play, lnd, nwc, cashu, onchain or none
	Mint                        string // with cashu

	Relay          string // ws:// address
	PlayURL        string
	Name           string
	PerMinuteMsats int64
	NoOffers       bool         // of a node that only buys
	MoreOffers     []schemas.ID // beside the sandbox, at the same price
	NoSandbox      bool         // only MoreOffers
	Agent          *SetupAgent  // does MoreOffers; nil: the built-in ones do
	Model          Model        // none without an address

	LeastConfinement string // of the sandbox; empty: the default
	ProviderLND      LND
	BuyerLND         LND
	Force            bool
	Keys             map[string]string // by role: the file to take its key from
}

// SetupAgent is an agent in the configuration of a new node.
type SetupAgent struct{ Dir, ID, Tool string }

// RelayListen is where lightwork relay is to listen: where this node looks for
// it, if that is on this machine.
func (s Setup) RelayListen() string {
	u, err := url.Parse(s.Relay)
	if err != nil || u.Scheme != "ws" || u.Port() == "" || !net.ParseIP(u.Hostname()).IsLoopback() {
		return DefaultRelayListen
	}
	return u.Host
}

// configTemplate is the configuration of a new node. It names every key: what
// is commented out is the default, or an example.
var configTemplate = template.Must(template.New(DefaultFile).Parse(`# Lightwork. Paths are relative to this file. lightwork config check explains errors.
version: 1

node:
  name: {{printf "%q" .Name}}
  # Databases, one folder a role. One provider works with it at a time, and many commands of a buyer.
  data_dir: data

# Secrets stay in files that only you can read (mode 0600).
identity:
  provider_key_file: keys/provider.key   # Nostr key (hex or nsec) that sells
  buyer_key_file: keys/buyer.key         # Nostr key that buys
  root_secret_file: keys/preimage.secret # payment preimages derive from it: back it up
  # provider_passphrase_file: keys/provider.pass # of a key that lightwork keys lock has locked
  # buyer_passphrase_file: keys/buyer.pass

relays:
  - {{printf "%q" .Relay}}

# Blossom servers that results are put on. Left out: the relays' own.
# blobs:
#   - https://blobs.example.com

# lightwork relay runs a relay and blob server here.
relay:
  listen: {{.RelayListen}}
  # public_url: https://relay.example.com # how others reach it, behind a proxy
  # description: jobs for money     # these three are shown to clients (NIP-11)
  # contact: mailto:me@example.com
  # pubkey: npub1...
  # min_pow: 0                      # bits of proof of work that an event needs (NIP-13)
  # messages_per_second: 1000       # what one connection may send; it is slowed down to that
  # connections_per_address: 64     # this machine's own addresses have no bound unless it is set
  # proxies: [127.0.0.1]            # reverse proxies that say in X-Forwarded-For whom a client comes from
  # owners: [npub1...]              # your own keys, beside those of identity: strangers leave room to them
  # uploaders: [npub1...]           # who may upload any blob, beside owners; "*": everybody
  # blob_max_mb: 32                 # one blob
  # blob_key_mb: 128                # all blobs of a stranger's key
  # blob_total_mb: 8192             # all blobs
  # private_kinds: [4, 1059, 21059] # only for their parties, who prove it (NIP-42)
  # metrics: 127.0.0.1:9447         # Prometheus; left out: none
  # retention:                      # the first rule for a kind decides; left out: kept while there is room
  #   - kinds: [0, 10002, 31990]    # kept
  #   - kinds: [5000-6999, 7000]
  #     max_age: 720h
  #     max_count: 1000000
  #   - kinds: [1063]
  #     refuse: true

# lightwork top works without it. For Prometheus: /metrics, /healthz, /readyz and /state of the provider.
# observe:
#   listen: 127.0.0.1:9464
#   wallet_balance: true      # shown with the metrics

# How you are told of what needs attention while the provider runs: debts, a wallet that cannot pay or make
# invoices, a full disk, a relay that is gone, a budget nearly spent, a second node with your key.
# alerts:
#   command: [/usr/local/bin/alert, --urgent] # gets JSON on its standard input; no shell
#   webhook: https://alerts.example.com/lightwork # posted as JSON
#   owner: npub1... # an encrypted message to this key (NIP-17), over the relays above

provider:
  # What the announcement says of you.
  about: ""
  # picture: https://example.com/picture.png
  # website: https://example.com
  # lud16: me@example.com # a Lightning address, shown only
  # nip05: me@example.com # a name that example.com vouches for; lightwork doctor looks
  wallet:{{template "wallet" .Provider}}
  offers:{{if .NoOffers}} [] # this node only buys{{else}}
    # A minute is the unit of price: a quote is for the longest the job may take.
{{- if not .NoSandbox}}
    - schema: oa.sandbox_run.v1
      # tool: com.example.agent/tool # an agent of yours does it, not the sandbox
      modes: [{{if eq .ProviderWallet "none"}}free{{else if eq .ProviderWallet "onchain"}}prepay{{else}}hold, prepay{{end}}] # {{if eq .ProviderWallet "onchain"}}on the chain nothing else is paid; also free{{else}}the first is the default; also postpay, free{{end}}
      base_msats: 0
      per_minute_msats: {{.PerMinuteMsats}}
      # engagement_msats: 2000 # asked first, for the attempt at a job that says what its result must be
      # Jobs on text may also cost by the token: a quote is for the request's max_tokens, or the most that is announced.
      # input_tokens_per_1k_msats: 0
      # output_tokens_per_1k_msats: 0
      # max_output_tokens: 4096
{{- end}}
    # - schema: oa.code_chunk_analysis.v1 # also oa.retrieval_rerank.v1, oa.embedding.v1, oa.text_generation.v1 (needs model)
    #   modes: [hold]
    #   base_msats: 2000
    #   per_minute_msats: 0{{range .MoreOffers}}
    - schema: {{.}}{{with $.Agent}}
      tool: {{.ID}}/{{.Tool}}{{end}}
      modes: [{{if eq $.ProviderWallet "onchain"}}prepay{{else}}hold, prepay{{end}}]
      base_msats: 0
      per_minute_msats: {{$.PerMinuteMsats}}{{end}}{{end}}
  # Kinds of request that are taken beside 5050, where they name a schema.
  # kinds: [5100, 5101, 5102, 5103]
  # The events that NIP-SA proposes: each that has a kind here is published (docs/protocol/protocol.md).
  # lifecycle:
  #   agent_profile: 39200
  #   agent_state: 39201
  #   tick_request: 39210
  #   tick_result: 39211
  #   trajectory_session: 39230
  #   trajectory_event: 39231
  #   encrypt: true # trajectories are for their buyers alone
  # What strangers can take of this machine.
  limits:
    concurrent: 2       # jobs at once
    queue: 64           # paid jobs that wait or run, of all buyers
    queue_per_buyer: 8
    unpaid: 256         # open invoices, of all buyers
    unpaid_per_buyer: 8
    held_per_buyer: 8   # payments held at once
    quote_ttl: 10m
    # free_pow_bits: 20 # proof of work (NIP-13) for a job in mode free
    # tree_mb: 256           # the most files that come with one job, packed, in MiB
    # context_tokens: 262144 # the longest request, a token for every 4 bytes
  # Who may buy: npubs. Left out: everybody. What is denied is denied in any case.
  # access:
  #   allow: []
  #   deny: []
  #   trust: follows # beside allow: whom this key follows (kind 3); follows2: and whom those follow
  #   of: []         # whose follows count instead: npubs
  # Prepaid jobs that fail are paid back to the {{if eq .ProviderWallet "onchain"}}address{{else}}invoice{{end}} in the request, else become credit.
  refunds:{{if eq .ProviderWallet "onchain"}}
    max_fee_msats: 2000000 # what the miners take of a refund that we owe for a failure of our own, at most; above it, it comes off the refund{{else}}
    max_fee_msats: 5000 # routing fees of a refund, at most{{end}}
    # credit_only: true # nothing is sent from the wallet

# How long the provider keeps what it has of a job after the job's end: 36h, 30d or forever. The
# announcement says it and every quote promises it: later changes are for later quotes. Receipts,
# quotes, requests, result events and policies stay for ever; what is bought stays too.
# retention:
#   dispute_window: 7d # nothing goes sooner
#   results: 90d
#   artifacts: 7d
#   trajectories: 90d
#   journals: 30d
#   blobs: 7d          # on the blob servers
#   events: 30d        # feedback to buyers

buyer:
  wallet:{{template "wallet" .Buyer}}
  # What we pay at most; 0 is no limit. Every job has a limit of its own too.
  max_msats_per_day: {{if eq .BuyerWallet "onchain"}}100000000{{else}}1000000{{end}}
  max_msats_per_provider_and_day: {{if eq .BuyerWallet "onchain"}}50000000{{else}}500000{{end}}
  {{if eq .BuyerWallet "onchain"}}max_fee_msats: 5000000 # what the miners take of one payment, at most; it counts within --max-msats{{else}}# max_fee_msats: 10000 # routing fees of one payment; left out: a twentieth of the price, or 10 sat, or the price where it is less{{end}}
  # max_engagement_msats: 2000 # a provider's fee for an attempt that it may not be paid for; left out: none is paid
  # Rules say what is paid without asking: the first that fits decides, and what none fits is refused.
  # Without rules --max-msats decides. A rule's id goes into the receipt.
  # approvals:
  #   - id: small
  #     up_to_msats: 20000 # price and routing fees together
  #     schemas: [oa.sandbox_run.v1] # left out: all
  #     providers: [] # npubs; left out: all
  #     modes: [hold] # left out: all
  #   - id: large
  #     do: ask # on the terminal; or refuse, or approve
  # Who chooses among results with --adjudicate judge: an agent that thinks, of the organism below.
  # judge:
  #   profile: judging
  #   listener: judge
{{if eq .BuyerWallet "onchain"}}  # On the chain there is only prepay: the provider could keep the money and not deliver.
  modes: [prepay, free]
{{else}}  # prepay is left out: there the provider could keep the money and not deliver.
  modes: [hold, postpay, free]
{{end}}
sandbox:
  # Servers that jobs may have repositories fetched from, by https: host names, or "*".
  fetch_from: []
  # ca_file: keys/authorities.pem # further authorities for those servers
  # What a job that asks for the network may send and receive: the web, by a proxy. 0 refuses such jobs.
  full_network_mb: 0
  # The weakest confinement that commands of buyers run at: full; or limits or landlock, where a machine cannot do more.
{{if .LeastConfinement}}  least_confinement: {{.LeastConfinement}}{{else}}  # least_confinement: full{{end}}
  # opened_networks: [10.1.0.0/16] # may be reached too, though not public; never this machine

# A language model for the jobs on text: any endpoint with the OpenAI API. Left out: built-in
# programs do them, and their results say so.
# model:
#   base_url: https://api.example.com/v1
#   key_file: keys/model.key # mode 0600; or key_env, the name of a variable
#   key_env: MODEL_API_KEY
#   name: example-model      # analyses code and ranks
#   embed: example-embedding # embeds
#   allow_http: false        # true: plain http also beyond this machine
{{with .Model}}{{if .BaseURL}}
model:
  base_url: {{printf "%q" .BaseURL}}
  name: {{printf "%q" .Name}}
  key_env: {{printf "%q" .KeyEnv}}
{{end}}{{end}}
# Agents that think, their tools and profiles: docs/build-agents/thinking-agents.md.
# organism: organism.yaml

# Agents of yours, each a folder with opensentience.agent.json.
# lightwork agents approve allows one; nothing runs before.
# agents:
#   - dir: agents/example
#     tools: [summarize]     # what may be called; nothing else has a route
#     env_from: [API_KEY]    # variables of the node's environment to hand on
#     uid: 1001              # whose process it is; left out: the node's own user
#     gid: 1001
#     manual: false          # true: started by lightwork agents start only
#     read: [/srv/models]    # what it may read beside the system and its folder
#     unconfined: false      # true: it runs as any program does
{{with .Agent}}
agents:
  - dir: {{.Dir}}
    tools: [{{.Tool}}]
    unconfined: true # nothing here confines it; WebAssembly confines its tool
{{end}}{{define "wallet"}}
    backend: {{.Backend}}{{if eq .Backend "play"}} # PLAY MONEY, worth nothing; use lnd to earn or pay
    play:
      url: {{.PlayURL}}
      token_file: {{.Token}}{{end}}{{if eq .Backend "none"}} # only free jobs; or play, lnd, nwc, cashu, onchain{{end}}{{if or (eq .Backend "lnd") (eq .Backend "onchain")}}
    lnd: # lightwork wallet permissions{{if eq .Backend "onchain"}} --chain --role refunds{{end}} prints how to bake the macaroon
      address: {{.LND.Address}}
      tls_cert_file: {{.LND.TLSCertFile}}
      macaroon_file: {{.LND.MacaroonFile}}
      # network: mainnet # refuse an lnd on any other{{end}}
{{- if eq .Backend "cashu"}}
    cashu: # notes of a mint, which holds the bitcoin: docs/use/payments.md
      mint: {{.Mint}}
      seed_file: {{.SeedFile}} # back it up
      max_msats: 10000000 # what may be at the mint at most
      # lock: 1h # how long a held payment stays held{{else}}
    # cashu: # backend cashu: notes of a mint, which holds the bitcoin
    #   mint: mint.example.com
    #   seed_file: {{.SeedFile}} # back it up
    #   max_msats: 10000000 # what may be at the mint at most
    #   lock: 1h # how long a held payment stays held{{end}}
{{- if eq .Backend "onchain"}}
    onchain: # the coins of the lnd above, for prepaid jobs only: docs/use/payments.md
      confirmations: 3       # that make a payment final
      target_blocks: 6       # within which an own transaction should be in one
      max_sat_per_vbyte: 100 # at most paid for that{{else}}
    # onchain: # backend onchain: the coins of the lnd above, for prepaid jobs only
    #   confirmations: 3       # that make a payment final
    #   target_blocks: 6       # within which an own transaction should be in one
    #   max_sat_per_vbyte: 100 # at most paid for that{{end}}
{{- if eq .Backend "nwc"}}
    nwc:
      uri_file: {{.URIFile}} # the wallet's nostr+walletconnect:// address, mode 0600{{else}}
    # nwc: # backend nwc: a wallet that speaks Nostr Wallet Connect
    #   uri_file: {{.URIFile}} # its nostr+walletconnect:// address, mode 0600{{end}}{{end}}`))

// Text is the configuration of a new node.
func (s Setup) Text() ([]byte, error) {
	var text bytes.Buffer
	err := configTemplate.Execute(&text, s)
	return text.Bytes(), err
}

// WalletSetup is one role's wallet in the template.
type WalletSetup struct {
	Backend, PlayURL, Token, URIFile string
	LND                              LND
	Mint, SeedFile                   string
}

// Provider is the provider's wallet.
func (s Setup) Provider() WalletSetup {
	return WalletSetup{s.ProviderWallet, s.PlayURL, "keys/play-provider.token", NWCFile("provider"), s.ProviderLND, s.Mint, seedFile("provider")}
}

// Buyer is the buyer's wallet.
func (s Setup) Buyer() WalletSetup {
	return WalletSetup{s.BuyerWallet, s.PlayURL, "keys/play-buyer.token", NWCFile("buyer"), s.BuyerLND, s.Mint, seedFile("buyer")}
}

// NWCFile is where the address of a role's NWC wallet goes.
func NWCFile(role string) string { return "keys/" + role + "-wallet.nwc" }

// seedFile is where the seed of a role's Cashu wallet goes.
func seedFile(role string) string { return "keys/" + role + "-cashu.seed" }
