package observe

import (
	"context"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/supervisor"
	"github.com/lightwork-market/lightwork/relay"
)

const (
	// probeEvery is the interval for questions that go over a network.
	probeEvery = 15 * time.Second
	// probeTime bounds one question.
	probeTime = 10 * time.Second
	// diskMin is the least free space for a healthy node: without space to write,
	// it stops accepting jobs.
	diskMin = 256 << 20
)

// NotAsked is the detail of a wallet before it was asked for the first time.
const NotAsked = "not asked yet"

// Check is one condition of readiness.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Agent is the state of an agent.
type Agent struct {
	ID       string           `json:"id"`
	State    supervisor.State `json:"state"`
	Reason   string           `json:"reason,omitempty"`
	Restarts int              `json:"restarts"`
	Inflight int              `json:"calls"`
}

// Offer is an offered job type.
type Offer struct {
	Schema string `json:"schema_id"`
	// Withdrawn says why its jobs cannot be done now; "" if they can.
	Withdrawn string `json:"withdrawn,omitempty"`
}

// State is everything that can be observed of a node at one moment. Amounts are in
// msats.
type State struct {
	Version   string    `json:"version"`
	PubKey    string    `json:"pubkey"`
	StartedAt time.Time `json:"started_at"`
	At        time.Time `json:"at"`
	Ready     bool      `json:"ready"`
	Checks    []Check   `json:"checks"`
	Open      []OpenJob `json:"open_jobs"`
	Totals    Totals    `json:"since_start"`
	HeldMsats int64     `json:"held_msats"`
	// SpendableMsats is the spendable balance of the wallet, if it may be shown and
	// is known.
	SpendableMsats *int64         `json:"wallet_spendable_msats,omitempty"`
	Outbox         int            `json:"outbox_pending"`
	DiskFreeBytes  int64          `json:"disk_free_bytes"`
	Relays         []relay.Status `json:"relays"`
	Agents         []Agent        `json:"agents"`
	Offers         []Offer        `json:"offers"`
}

// Config has the sources of a node's state.
type Config struct {
	Version string
	PubKey  string // of the provider, hex
	Dir     string // where the node writes
	Board   *Board
	Relays  func() []relay.Status
	Agents  func() []supervisor.AgentStatus
	// Offers lists the configured job types, each with the reason why it cannot be
	// done now, "" if it can.
	Offers func() []Offer
	// Outbox counts the events that some relay has not confirmed yet.
	Outbox func(context.Context) (int, error)
	// Wallet checks that the wallet answers; nil if there is none.
	Wallet func(context.Context) error
	// Balance returns the spendable balance of the wallet, in msats; nil if it must
	// not be shown.
	Balance func(context.Context) (int64, error)
	// Admission says why no new jobs are accepted; "" or nil if they are.
	Admission func() string
	// Signer describes the relays of a remote signer; nil for a local key.
	Signer func() []relay.Status
}

// Node observes a running node.
type Node struct {
	cfg     Config
	started time.Time

	mu      sync.Mutex
	wallet  Check // the latest answer
	balance *int64
	outbox  int
}

// NewNode returns a node. It asks nothing until Probe runs.
func NewNode(cfg Config) *Node {
	return &Node{cfg: cfg, started: time.Now().UTC(), wallet: Check{Name: "wallet", Detail: NotAsked}}
}

// Probe repeatedly asks for the state that must be asked for, until ctx ends.
func (n *Node) Probe(ctx context.Context) error {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		n.probe(ctx)
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (n *Node) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()

	wallet := Check{Name: "wallet", OK: true, Detail: "answers"}
	if n.cfg.Wallet == nil {
		wallet.Detail = "none: only free jobs"
	} else if err := n.cfg.Wallet(ctx); err != nil {
		wallet.OK, wallet.Detail = false, err.Error()
	}

	var balance *int64 // unknown instead of outdated
	if n.cfg.Balance != nil {
		if msats, err := n.cfg.Balance(ctx); err == nil {
			balance = &msats
		}
	}

	outbox, err := n.cfg.Outbox(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()

	n.wallet, n.balance = wallet, balance
	if err == nil {
		n.outbox = outbox
	}
}

// State returns the current state.
func (n *Node) State() State {
	s := State{
		Version: n.cfg.Version, PubKey: n.cfg.PubKey, StartedAt: n.started, At: time.Now().UTC(),
		Open: n.cfg.Board.Open(), Totals: n.cfg.Board.Totals(), Relays: n.cfg.Relays(), Agents: []Agent{}, Offers: n.cfg.Offers(),
	}
	for i := range s.Relays {
		s.Relays[i].Error = cause(s.Relays[i].Error)
	}
	for _, j := range s.Open {
		s.HeldMsats += j.HeldMsats
	}
	for _, a := range n.cfg.Agents() {
		s.Agents = append(s.Agents, Agent{ID: a.ID, State: a.State, Reason: a.Reason, Restarts: a.Restarts, Inflight: a.Inflight})
	}
	n.mu.Lock()
	wallet := n.wallet
	s.Outbox, s.SpendableMsats = n.outbox, n.balance
	n.mu.Unlock()
	var disk Check
	disk, s.DiskFreeBytes = diskCheck(n.cfg.Dir)
	s.Checks = []Check{relayCheck("relays", s.Relays), wallet, offerCheck(s.Offers), disk}
	if n.cfg.Admission != nil {
		c := Check{Name: "admission", OK: true, Detail: "new jobs are taken"}
		if why := n.cfg.Admission(); why != "" {
			c.OK, c.Detail = false, why
		}
		s.Checks = append(s.Checks, c)
	}

	if n.cfg.Signer != nil {
		s.Checks = append(s.Checks, relayCheck("signer", n.cfg.Signer()))
	}
	s.Ready = true
	for _, c := range s.Checks {
		s.Ready = s.Ready && c.OK
	}
	return s
}

// cause returns the end of a network error, which names the reason: for "dial tcp
// 127.0.0.1:1: connect: connection refused" the last two words.
func cause(text string) string {
	return strings.TrimSpace(text[strings.LastIndex(text, ": ")+1:])
}

// relayCheck requires one connected relay: buyers find events on any of them.
func relayCheck(name string, relays []relay.Status) Check {
	c := Check{Name: name, Detail: "none is connected"}
	for _, r := range relays {
		if r.State == relay.StateConnected {
			return Check{Name: name, OK: true, Detail: r.URL + " is connected"}
		}
		if r.Error != "" {
			c.Detail = r.URL + ": " + r.Error
		}
	}
	return c
}

// offerCheck requires that all offered jobs can be done.
func offerCheck(offers []Offer) Check {
	var withdrawn []string
	for _, o := range offers {
		if o.Withdrawn != "" {
			withdrawn = append(withdrawn, o.Schema+" is withdrawn: "+o.Withdrawn)
		}
	}
	if len(withdrawn) > 0 {
		return Check{Name: "offers", Detail: strings.Join(withdrawn, "; ")}
	}
	return Check{Name: "offers", OK: true, Detail: "all offered jobs can be done"}
}

func diskCheck(dir string) (Check, int64) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return Check{Name: "disk", Detail: err.Error()}, 0
	}
	free := int64(min(st.Bavail*uint64(st.Bsize), 1<<62))
	if free < diskMin {
		return Check{Name: "disk", Detail: "less than 256 MiB free in " + dir}, free
	}
	return Check{Name: "disk", OK: true, Detail: "room in " + dir}, free
}
