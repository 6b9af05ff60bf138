package house

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

const module = "github.com/lightwork-market/lightwork/"

// rooms says which rooms of ours each room may import. "x/..." is x and all
// below it. A room that is not in the table fails the test: give it a row.
// Tests may import more; only the program itself is held to this.
var rooms = map[string][]string{
	// From canonical JSON up to receipts, each knows only what is before it.
	"hashing":         {},
	"domain":          {},
	"market/kinds":    {"domain"},
	"market/tree":     {"hashing"},
	"schemas":         {"hashing", "market/tree"},
	"replay":          {"hashing"},
	"payments":        {"hashing"},
	"payments/bolt11": {"hashing", "payments", "internal/lowerbech32"},
	"receipts":        {"domain", "market/kinds", "hashing", "schemas", "replay", "payments", "payments/bolt11", "internal/sigbatch", "internal/lowerbech32"},

	// Wallets know money, nothing of jobs.
	"payments/conformance":     {"hashing", "payments", "payments/bolt11"},
	"payments/destination":     {"payments", "payments/bolt11"},
	"payments/onchain":         {"payments", "payments/destination", "payments/bolt11", "payments/lnd", "internal/sqlite"},
	"payments/lud16":           {"hashing", "internal/clip", "payments", "payments/bolt11"},
	"payments/lnd":             {"hashing", "payments", "payments/bolt11"},
	"payments/cashu":           {"hashing", "internal/clip", "internal/sqlite", "payments", "payments/bolt11", "relay"},
	"payments/nwc":             {"domain", "hashing", "internal/backoff", "internal/clip", "internal/sqlite", "payments", "payments/bolt11", "relay"},
	"payments/playnet":         {"hashing", "internal/backoff", "internal/sqlite", "payments", "payments/bolt11", "payments/playnet/playurl"},
	"payments/playnet/playurl": {"payments"},

	"relay/nip01":       {"internal/clip"},
	"relay":             {"hashing", "internal/backoff", "internal/clip", "internal/publicnet", "relay/nip01"},
	"relay/bunker":      {"hashing", "internal/clip", "relay", "relay/nip01"},
	"relay/server":      {"hashing", "relay/nip01", "internal/sqlite"},
	"relay/conformance": {"relay/nip01"},

	// Node and agent share frame and wire, and nothing else.
	"agentruntime/frame":                  {},
	"agentruntime/wire":                   {"agentruntime/frame", "internal/clip"},
	"agentruntime/toolschema":             {"agentruntime/wire"},
	"agentruntime/agent":                  {"agentruntime/frame", "agentruntime/wire"},
	"agentruntime/seccomp":                {},
	"agentruntime/guard":                  {"agentruntime/frame", "agentruntime/seccomp"},
	"agentruntime/cgroup":                 {},
	"agentruntime/internal/watchdog":      {},
	"agentruntime/supervisor":             {"agentruntime/cgroup", "agentruntime/frame", "agentruntime/guard", "agentruntime/redact", "agentruntime/toolschema", "agentruntime/internal/watchdog", "agentruntime/wire"},
	"agentruntime/manifest":               {"hashing", "agentruntime/wire"},
	"agentruntime/redact":                 {},
	"agentruntime/host":                   {"agentruntime/cgroup", "agentruntime/guard", "agentruntime/manifest", "agentruntime/redact", "agentruntime/supervisor", "agentruntime/wire"},
	"agentruntime/pipeline":               {"hashing"},
	"agentruntime/routing":                {"agentruntime/pipeline"},
	"agentruntime/organism":               {"agentruntime/message", "agentruntime/model/chat", "agentruntime/pipeline", "agentruntime/routing", "agentruntime/thinker", "agentruntime/wire", "hashing", "internal/yamlfile"},
	"agentruntime/message":                {"hashing", "agentruntime/pipeline", "agentruntime/redact", "agentruntime/wire"},
	"agentruntime/curator":                {"agentruntime/pipeline", "agentruntime/wire", "hashing"},
	"agentruntime/model/chat":             {"hashing"},
	"agentruntime/model":                  {"agentruntime/model/chat", "agentruntime/redact", "hashing", "internal/backoff"},
	"agentruntime/model/scripted":         {"agentruntime/model/chat"},
	"agentruntime/thinker":                {"hashing", "agentruntime/model/chat", "agentruntime/pipeline"},
	"sdk/python":                          {}, // tests only, as in the next
	"sdk/typescript":                      {},
	"agentruntime/sandbox":                {"hashing", "schemas", "agentruntime/cgroup", "agentruntime/frame", "agentruntime/guard", "agentruntime/internal/watchdog", "agentruntime/sandbox/images", "agentruntime/seccomp", "internal/publicnet"},
	"agentruntime/sandbox/images":         {"hashing"},
	"agentruntime/contract":               {"agentruntime/frame", "agentruntime/toolschema", "agentruntime/wire"},
	"agentruntime/agents/reference":       {"agentruntime/agent", "agentruntime/message", "agentruntime/wire"},
	"agentruntime/analysis":               {"schemas"},
	"agentruntime/analysis/code":          {"schemas", "agentruntime/analysis"},
	"agentruntime/agents/text":            {"hashing", "schemas", "agentruntime/agent", "agentruntime/analysis", "agentruntime/analysis/code", "agentruntime/model", "agentruntime/model/chat", "agentruntime/wire"},
	"agentruntime/internal/wasm":          {"hashing", "agentruntime/internal/wasm/wit", "agentruntime/toolschema", "agentruntime/wire"},
	"agentruntime/internal/wasm/wit":      {},
	"agentruntime/internal/wasm/wasmtest": {},
	"agentruntime/agents/wasmhost":        {"agentruntime/agent", "agentruntime/frame", "agentruntime/internal/wasm", "agentruntime/wire"},
	"examples/wasm/count":                 {},
	"agentruntime/agents/mcp":             {"agentruntime/agent", "agentruntime/frame", "agentruntime/toolschema", "agentruntime/wire"},
	"interop/outside":                     {"internal/port", "internal/requirements", "internal/testclass"}, // serves tests, as the next are tests only
	"interop/mcp":                         {},
	"interop/nwc":                         {},
	"interop/nostr":                       {},
	"interop/abuse":                       {},
	"sdk/verify-js":                       {},
	"agentruntime/agents/sandbox":         {"agentruntime/agent", "agentruntime/wire", "agentruntime/sandbox", "schemas"},

	// What the stages of a provider and its store share.
	"market/job": {"hashing", "payments", "payments/destination", "receipts"},
	// The two sides of a trade declare what they need and know no backend.
	"lifecycle":                   {"domain", "market/kinds", "hashing"},
	"provider/internal/slots":     {},
	"provider/internal/publish":   {"domain", "hashing", "internal/recent", "lifecycle", "market/job", "market/kinds", "provider/internal/slots", "receipts"},
	"provider/internal/announce":  {"domain", "hashing", "internal/recent", "lifecycle", "market/job", "market/kinds", "payments", "provider/internal/publish", "receipts", "schemas", "market/tree"},
	"provider/internal/admission": {"market/job", "market/kinds", "provider/internal/slots", "receipts", "schemas"},
	"provider/internal/restore":   {"domain", "hashing", "market/job", "market/kinds", "provider/internal/publish", "receipts"},
	"provider/internal/refund":    {"internal/backoff", "internal/clip", "market/job", "payments", "payments/bolt11", "payments/destination", "provider/internal/publish", "receipts"},
	"provider/internal/trees":     {"hashing", "market/job", "market/tree", "provider/internal/openjob", "provider/internal/publish", "receipts", "schemas"},
	"provider/internal/openjob":   {"market/job", "provider/internal/publish", "receipts", "schemas", "market/tree"},
	"provider/internal/charge":    {"hashing", "market/job", "payments", "provider/internal/openjob", "provider/internal/publish", "receipts", "schemas"},
	"provider/internal/run":       {"hashing", "internal/clip", "lifecycle", "market/job", "payments", "provider/internal/openjob", "provider/internal/publish", "receipts", "replay", "schemas"},
	"provider/internal/deliver":   {"domain", "hashing", "lifecycle", "market/job", "market/kinds", "payments", "provider/internal/charge", "provider/internal/openjob", "provider/internal/publish", "receipts", "replay", "schemas"},
	"provider/internal/intake":    {"domain", "internal/recent", "market/job", "market/kinds", "provider/internal/charge", "provider/internal/openjob", "provider/internal/publish", "provider/internal/slots", "receipts", "schemas"},
	"provider/internal/flow":      {"market/job", "payments", "provider/internal/admission", "provider/internal/charge", "provider/internal/deliver", "provider/internal/openjob", "provider/internal/publish", "provider/internal/refund", "provider/internal/restore", "provider/internal/run", "receipts", "provider/internal/trees"},
	"provider":                    {"domain", "hashing", "internal/recent", "lifecycle", "market/job", "market/kinds", "payments", "provider/internal/admission", "provider/internal/announce", "provider/internal/charge", "provider/internal/deliver", "provider/internal/flow", "provider/internal/intake", "provider/internal/publish", "provider/internal/refund", "provider/internal/restore", "provider/internal/run", "receipts", "schemas", "provider/internal/trees", "market/tree"},
	// By what rules a buyer pays.
	"buyer/approval": {"payments", "receipts"},
	// What the stages of a buyer and its store share.
	"buyer/purchase": {"domain", "hashing", "payments", "receipts", "schemas", "market/tree"},
	// Its stages: none imports another.
	"buyer/internal/author": {"buyer/purchase", "domain", "market/kinds"},
	"buyer/internal/blob":   {"buyer/purchase", "hashing", "payments", "receipts"},
	// The order of the stages, and nothing but that.
	"buyer/internal/flow":    {"buyer/internal/author", "buyer/internal/offer", "buyer/internal/pay", "buyer/internal/profile", "buyer/internal/proof", "buyer/internal/refund", "buyer/internal/result", "buyer/internal/text", "buyer/purchase", "hashing", "market/kinds", "payments", "receipts", "market/tree", "buyer/internal/trees"},
	"buyer/internal/offer":   {"buyer/approval", "buyer/internal/author", "buyer/internal/text", "buyer/purchase", "domain", "hashing", "payments", "payments/bolt11", "receipts"},
	"buyer/internal/pay":     {"buyer/purchase", "internal/backoff", "payments", "payments/bolt11"},
	"buyer/internal/profile": {"buyer/purchase", "hashing", "receipts", "schemas"},
	"buyer/internal/proof":   {"buyer/internal/blob", "buyer/internal/profile", "buyer/purchase", "hashing", "payments", "receipts", "schemas"},
	"buyer/internal/refund":  {"buyer/purchase", "hashing", "payments", "payments/destination", "payments/bolt11", "receipts"},
	"buyer/internal/result":  {"buyer/internal/blob", "buyer/internal/profile", "buyer/internal/text", "buyer/purchase", "domain", "hashing", "receipts", "schemas"},
	"buyer":                  {"buyer/approval", "buyer/internal/author", "buyer/internal/discover", "buyer/internal/flow", "buyer/internal/offer", "buyer/internal/pay", "buyer/internal/profile", "buyer/internal/proof", "buyer/internal/refund", "buyer/internal/result", "buyer/internal/text", "buyer/purchase", "domain", "hashing", "market/kinds", "payments", "receipts", "schemas", "market/tree", "buyer/internal/trees"},
	// A store for programs of others.
	"buyer/store": {"buyer", "buyer/panel", "internal/sqlite", "internal/store"},
	// What both know as the market, on relays and blob servers.
	"relay/exchange": {"buyer", "hashing", "provider", "relay"},
	// Several machines of one owner: what a gateway needs of the message wire.
	"cluster/event":         {"hashing"},
	"cluster/wire":          {},
	"cluster/store":         {"cluster/event", "internal/sqlite"},
	"cluster":               {"cluster/event", "cluster/store", "cluster/wire", "hashing"},
	"cluster/wire/memwire":  {"cluster/wire"},
	"cluster/wire/natswire": {"cluster/wire"},
	"cluster/wire/wiretest": {"cluster/wire"}, // serves tests
	// What becomes of several results is decided without relays, wallets and stores.
	"buyer/adjudicate":        {"hashing", "schemas"},
	"buyer/internal/discover": {"domain", "hashing", "market/kinds", "receipts", "schemas", "market/tree"},
	"buyer/internal/text":     {},
	"buyer/internal/trees":    {"hashing", "market/tree"},
	// Several providers for one job: on the buyer's public API.
	"buyer/panel": {"buyer", "buyer/adjudicate", "buyer/internal/text", "domain", "market/kinds", "market/tree", "hashing", "payments", "receipts", "schemas"},

	"internal/backoff":   {},
	"internal/clip":      {},
	"internal/spending":  {"hashing", "internal/clip", "internal/wholefile", "payments"},
	"internal/wholefile": {},
	"internal/alerts":    {"hashing", "internal/backoff", "internal/clip", "internal/wholefile"},
	"internal/recent":    {},
	// Errors with a next step, and values for a person.
	"internal/advice":  {},
	"internal/display": {"internal/advice", "receipts"},

	"internal/sigbatch":    {},
	"internal/lowerbech32": {},
	"internal/yamlfile":    {},
	"internal/sqlite":      {},
	"internal/publicnet":   {},
	"internal/nip05":       {"hashing", "internal/clip", "payments"},
	// Is told what happens to a provider's jobs.
	"internal/observe": {"agentruntime/supervisor", "payments", "provider", "receipts", "relay"},
	// Each area of the store knows those it builds on; the store implements the stores
	// of its consumers, so it imports them.
	"internal/store/row":               {"internal/sqlite", "hashing"},
	"internal/store/journal":           {"internal/store/row", "internal/sqlite", "hashing", "agentruntime/curator", "agentruntime/pipeline"},
	"internal/store/contexts":          {"internal/store/row", "internal/store/journal", "hashing", "agentruntime/curator", "agentruntime/pipeline"},
	"internal/store/outbox":            {"internal/store/row", "market/job"},
	"internal/store/names":             {"internal/store/row"},
	"internal/store/pruning":           {"internal/store/journal", "internal/store/outbox", "internal/store/row", "hashing", "receipts"},
	"internal/store/sales":             {"internal/store/journal", "internal/store/money", "internal/store/names", "internal/store/outbox", "internal/store/pruning", "internal/store/row", "internal/sqlite", "hashing", "market/job", "payments", "provider", "receipts"},
	"internal/store/purchases":         {"internal/store/journal", "internal/store/money", "internal/store/names", "internal/store/row", "internal/sqlite", "hashing", "buyer", "buyer/panel", "payments", "receipts"},
	"internal/store/money":             {"internal/store/outbox", "internal/store/row", "buyer/purchase", "market/job", "payments", "receipts"},
	"internal/store":                   {"internal/store/contexts", "internal/store/journal", "internal/store/money", "internal/store/names", "internal/store/outbox", "internal/store/pruning", "internal/store/purchases", "internal/store/row", "internal/store/sales", "internal/sqlite"},
	"internal/store/storetest":         {"internal/store", "internal/store/journal", "internal/store/purchases", "internal/store/sales", "hashing", "agentruntime/curator", "agentruntime/pipeline", "buyer", "buyer/panel", "market/job", "payments", "receipts"}, // serves tests
	"internal/requirements":            {},
	"internal/barecontainer":           {"agentruntime/seccomp"},
	"internal/testclass":               {}, // serves tests
	"internal/testclass/cmd/report":    {"internal/testclass"},
	"internal/requirements/cmd/matrix": {"internal/requirements"},
	"internal/house":                   {},
	"internal/hardware":                {},
	"internal/lease":                   {},
	"internal/port":                    {}, // serves tests
	"internal/faults":                  {}, // serves tests, as the next
	"internal/markettest":              {"buyer", "buyer/panel", "domain", "hashing", "internal/faults", "internal/store", "internal/store/sales", "market/kinds", "payments", "payments/playnet", "provider", "receipts", "relay", "relay/exchange", "relay/server", "schemas"},
	"internal/devnet":                  {},
	"internal/devnet/cmd/devnet":       {"internal/devnet"},
	"internal/crashtest":               {}, // tests only, as in the next
	"internal/crashmatrix":             {},
	"examples":                         {},
	"bench":                            {},

	// Programs connect the rooms.
	// A group of commands is a room; none of them knows a store or a wallet.
	"internal/cli":          {"agentruntime/message", "internal/advice", "internal/cli/accounts", "internal/cli/alerts", "internal/cli/agents", "internal/cli/app", "internal/cli/backup", "internal/cli/buy", "internal/cli/demo", "internal/cli/doctor", "internal/cli/images", "internal/cli/jobs", "internal/cli/keys", "internal/cli/organism", "internal/cli/receipts", "internal/cli/relay", "internal/cli/replay", "internal/cli/schemas", "internal/cli/sell", "internal/cli/setup", "internal/cli/top", "internal/cli/wallet", "internal/display", "internal/node/builtin"},
	"internal/cli/accounts": {"internal/advice", "internal/cli/app", "internal/config", "internal/display", "internal/node"},
	"internal/cli/alerts":   {"internal/advice", "internal/cli/app", "internal/display"},
	"internal/cli/agents":   {"agentruntime/contract", "agentruntime/host", "agentruntime/manifest", "agentruntime/supervisor", "agentruntime/wire", "internal/advice", "internal/cli/app", "internal/config", "internal/display", "internal/node"},
	"internal/cli/app":      {"buyer", "internal/advice", "internal/config", "internal/display", "internal/node", "internal/node/keys"},
	"internal/cli/backup":   {"internal/advice", "internal/cli/app", "internal/display", "internal/node"},
	"internal/cli/buy":      {"buyer", "buyer/adjudicate", "buyer/panel", "hashing", "internal/advice", "internal/cli/app", "internal/cli/panel", "internal/cli/purchase", "internal/config", "internal/display", "internal/lease", "internal/nip05", "internal/node", "internal/node/buying", "payments", "provider", "receipts", "schemas", "market/tree"},
	"internal/cli/demo":     {"agentruntime/manifest", "agentruntime/sandbox", "buyer", "examples", "internal/advice", "internal/cli/app", "internal/cli/buy", "internal/cli/purchase", "internal/config", "internal/display", "internal/node", "internal/node/builtin", "receipts", "relay/server", "schemas"},
	"internal/cli/doctor":   {"agentruntime/sandbox", "internal/advice", "internal/cli/app", "internal/display", "internal/node/builtin", "internal/node/health"},
	"internal/cli/images":   {"agentruntime/sandbox/images", "internal/advice", "internal/cli/app"},
	"internal/cli/jobs":     {"internal/advice", "internal/cli/app", "internal/display", "internal/node", "payments", "provider", "receipts"},
	"internal/cli/keys":     {"internal/advice", "internal/cli/app", "internal/config", "internal/display", "internal/node", "internal/node/keys", "provider", "receipts", "relay", "relay/bunker"},
	"internal/cli/organism": {"agentruntime/host", "agentruntime/message", "agentruntime/organism", "agentruntime/wire", "internal/advice", "internal/cli/app", "internal/display", "internal/node"},
	"internal/cli/panel":    {"buyer", "buyer/panel", "internal/advice", "internal/cli/app", "internal/cli/purchase", "internal/display", "internal/lease", "internal/node", "internal/node/buying", "payments", "receipts", "schemas"},
	"internal/cli/purchase": {"buyer", "internal/advice", "internal/cli/app", "internal/display", "internal/lease", "internal/node", "payments", "receipts", "schemas"},
	"internal/cli/receipts": {"buyer", "domain", "hashing", "internal/advice", "internal/cli/app", "internal/cli/jobs", "internal/cli/purchase", "internal/config", "internal/display", "internal/node", "internal/node/keys", "market/kinds", "receipts"},
	"internal/cli/relay":    {"internal/cli/app"},
	"internal/cli/replay":   {"hashing", "internal/advice", "internal/cli/app", "internal/display", "receipts", "replay"},
	"internal/cli/schemas":  {"internal/advice", "internal/cli/app", "internal/config", "schemas"},
	"internal/cli/sell":     {"agentruntime/host", "agentruntime/sandbox", "hashing", "internal/advice", "internal/cli/app", "internal/cli/doctor", "internal/cli/jobs", "internal/display", "internal/node", "internal/node/builtin", "internal/node/health", "payments", "provider", "receipts", "schemas"},
	"internal/cli/setup":    {"internal/advice", "internal/cli/app", "internal/config", "internal/display", "internal/node", "payments"},
	"internal/cli/top":      {"agentruntime/host", "agentruntime/supervisor", "internal/advice", "internal/cli/app", "internal/display", "internal/node", "internal/observe", "relay"},
	"internal/cli/wallet":   {"internal/advice", "internal/cli/app", "internal/config", "internal/display", "internal/node", "internal/node/wallets", "payments"},
	// A node wires the others.
	"internal/packs": {"hashing", "market/tree"},
	"internal/node": {
		"internal/lease", "internal/node/buying",
		"agentruntime/...", "buyer", "buyer/panel", "domain", "hashing", "internal/advice", "internal/alerts", "internal/config", "internal/display", "internal/hardware", "internal/store",
		"internal/nip05", "internal/node/archive", "internal/node/builtin", "internal/node/keys", "internal/node/organisms", "internal/node/retention", "internal/node/roles", "internal/node/wallets", "internal/observe",
		"internal/sqlite", "internal/store/journal", "internal/store/money", "internal/store/names", "internal/store/pruning", "internal/store/purchases", "internal/store/sales", "market/job", "market/kinds", "payments", "payments/onchain", "payments/playnet", "provider", "receipts", "relay", "relay/exchange",
		"relay/server", "schemas",
		"internal/packs",
	},
	"internal/node/buying":    {"agentruntime/host", "buyer", "buyer/panel", "hashing", "internal/lease", "payments"},
	"internal/node/archive":   {"hashing", "internal/sqlite", "internal/store", "internal/wholefile"},
	"internal/node/retention": {"hashing", "internal/store/pruning", "receipts"},
	"internal/node/keys":      {"internal/advice", "internal/config", "internal/display", "market/kinds", "provider", "receipts", "relay", "relay/bunker"},
	"internal/node/wallets": {
		"hashing", "internal/advice", "internal/config", "internal/display", "internal/node/keys", "internal/sqlite", "payments", "payments/cashu",
		"payments/lnd", "payments/lud16", "payments/nwc", "payments/onchain", "payments/playnet", "provider", "receipts", "relay",
	},
	"internal/node/roles":   {"internal/advice"},
	"internal/node/builtin": {"agentruntime/...", "internal/advice", "internal/config", "internal/display", "schemas"},
	"internal/node/organisms": {
		"agentruntime/...", "internal/advice", "internal/config", "internal/store", "internal/node/builtin", "internal/store/journal", "internal/store/row",
	},
	"internal/node/health": {
		"agentruntime/...", "internal/advice", "internal/config", "internal/display", "internal/nip05", "internal/node", "internal/node/builtin",
		"internal/node/keys", "internal/node/wallets", "market/kinds", "payments", "payments/cashu", "payments/lnd", "payments/nwc", "payments/onchain",
		"receipts", "relay",
	},
	"internal/config": {
		"internal/advice", "internal/display", "internal/nip05", "internal/observe", "internal/spending", "internal/yamlfile", "agentruntime/agents/sandbox", "agentruntime/agents/text",
		"agentruntime/model", "agentruntime/sandbox", "agentruntime/wire", "buyer", "lifecycle", "payments", "payments/playnet/playurl",
		"provider", "receipts", "relay/server", "schemas", "market/tree",
	},
	"cmd/lightwork":        {"internal/cli"},
	"cmd/lightwork-verify": {"receipts", "payments"},
}

// only says who alone may import something, tests included.
var only = []struct {
	prefix string
	by     []string
}{
	{"github.com/mattn/go-sqlite3", []string{"internal/sqlite"}},
	{"github.com/lightningnetwork/lnd/lnrpc", []string{"payments/lnd"}},
	{"google.golang.org/grpc", []string{"payments/lnd"}},
	{"github.com/tetratelabs/wazero", []string{"agentruntime/internal/wasm"}},
}

// closures says what the program's whole import graph below a room must not
// hold: not the room, nor anything it imports.
var closures = []struct {
	room   string
	banned []string
}{
	// The verifier cannot talk to anybody, run anything or open a database.
	{"cmd/lightwork-verify", []string{"net", "net/http", "os/exec", "database/sql", "crypto/tls", "github.com/nbd-wtf/go-nostr", "github.com/google/uuid"}},
	{"hashing", []string{"net", "github.com/nbd-wtf/go-nostr"}},
	{"schemas", []string{"net", "github.com/nbd-wtf/go-nostr"}},
	{"replay", []string{"net", "github.com/nbd-wtf/go-nostr"}},
	{"receipts", []string{"net", "os/exec", "database/sql", "crypto/tls", "github.com/nbd-wtf/go-nostr"}},
	{"provider", []string{"database/sql", "os/exec", "github.com/mattn/go-sqlite3", "google.golang.org/grpc"}},
	{"buyer", []string{"database/sql", "os/exec", "github.com/mattn/go-sqlite3", "google.golang.org/grpc"}},
	// Only the process that asks a model has a network.
	{"agentruntime/thinker", []string{"net", "net/http", "os/exec"}},
	{"agentruntime/agent", []string{"database/sql", "github.com/nbd-wtf/go-nostr"}},
}

// pkg is what go list says of one package.
type pkg struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
	Deps         []string
}

func (p pkg) room() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) map[string]pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-tags", "libsecp256k1,lnd", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", "./...")
	cmd.Dir = "../.."
	out, err := cmd.Output()
	var exited *exec.ExitError
	if errors.As(err, &exited) {
		t.Fatalf("go list: %s", exited.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	all := map[string]pkg{}
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all[p.room()] = p
	}
}

// covered reports whether a room is one of the patterns.
func covered(patterns []string, room string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		base, all := strings.CutSuffix(p, "...")
		return room == p || all && (base == "" || room+"/" == base || strings.HasPrefix(room, base))
	})
}

func TestRooms(t *testing.T) {
	for room, p := range packages(t) {
		may, ok := rooms[room]
		if !ok {
			t.Errorf("%s is in no row of the table", room)
			continue
		}
		for _, path := range p.Imports {
			other, ours := strings.CutPrefix(path, module)
			if ours && (strings.HasPrefix(other, "cmd/") || !covered(may, other)) {
				t.Errorf("%s imports %s", room, other)
			}
		}
	}
}

func TestSoleImporters(t *testing.T) {
	for room, p := range packages(t) {
		for _, path := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			for _, o := range only {
				if (path == o.prefix || strings.HasPrefix(path, o.prefix+"/")) && !slices.Contains(o.by, room) {
					t.Errorf("%s imports %s, which only %v may", room, path, o.by)
				}
			}
			if strings.HasPrefix(path, module+"cmd/") {
				t.Errorf("%s imports a program, %s", room, path)
			}
		}
	}
}

func TestClosures(t *testing.T) {
	all := packages(t)
	for _, c := range closures {
		p, ok := all[c.room]
		if !ok {
			t.Errorf("no room %s", c.room)
		}
		for _, banned := range c.banned {
			if slices.Contains(p.Deps, banned) {
				t.Errorf("%s links %s", c.room, banned)
			}
		}
	}
}

// TestNoAgentCodeInProcess: nothing that could load an agent's code is linked
// into a program; there is no interpreter among our imports either.
func TestNoAgentCodeInProcess(t *testing.T) {
	requirements.Covers(t, "OS-0.4")
	all := packages(t)
	for _, program := range []string{"cmd/lightwork", "cmd/lightwork-verify"} {
		for _, dep := range all[program].Deps {
			if dep == "plugin" || strings.Contains(dep, "yaegi") || strings.Contains(dep, "goja") || strings.Contains(dep, "gopher-lua") || strings.Contains(dep, "starlark") {
				t.Errorf("%s links %s", program, dep)
			}
		}
	}
}

func TestCovered(t *testing.T) {
	for _, c := range []struct {
		pattern, room string
		want          bool
	}{
		{"relay", "relay", true},
		{"relay", "relay/server", false},
		{"relay/...", "relay", true},
		{"relay/...", "relay/server", true},
		{"relay/...", "relayed", false},
		{"...", "anything", true},
	} {
		if got := covered([]string{c.pattern}, c.room); got != c.want {
			t.Errorf("%s covers %s: %v", c.pattern, c.room, got)
		}
	}
}
