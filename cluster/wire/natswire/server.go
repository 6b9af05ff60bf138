// Package natswire is the message wire over NATS JetStream. Each gateway runs one server
// of its own with one account per peer: a peer reaches the few subjects that are exported
// to its account, and no others, whatever its program asks for.
package natswire

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"regexp"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"github.com/lightwork-market/lightwork/cluster/wire"
)

// The streams and subjects of a server. Only the first two streams are read by peers.
const (
	outboxStream  = "OUTBOX"
	recordStream  = "RECORDS"
	cursorStream  = "CURSOR_" // and the peer
	outboxSubject = "outbox"
	recordSubject = "record." // and the key
	cursorSubject = "cursor." // and the peer
	wakeSubject   = "wake"

	epochField = "epoch"
	headerRoom = 4 << 10 // bytes of a message's headers

	// The prefix of the server's interface, for the gateway and for its peers. Another
	// one for peers, because each account has an interface of JetStream of its own.
	ownAPI  = "$JS.API."
	peerAPI = "gate."
)

// startTime is how long the server may take to open its store.
const startTime = 30 * time.Second

var nodeForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// Config is what one gateway needs to know.
type Config struct {
	Node        string
	Dir         string // of the server's store
	Listen      string // host:port
	Certificate tls.Certificate
	MaxStore    int64 // bytes that the streams may take on the disk
	Peers       []Peer
}

// Peer is another gateway.
type Peer struct {
	Node    string
	Address string            // host:port of its server
	Pin     [sha256.Size]byte // hash of its certificate
	Key     string            // the public nkey with which it comes to this server
	Seed    []byte            // of the nkey with which this gateway goes to its server
}

// Wire is a gateway's server, with the connections to those of its peers.
type Wire struct {
	node   string
	peers  map[string]Peer
	server *server.Server
	conn   *nats.Conn
	js     jetstream.JetStream

	mu     sync.Mutex // guards closed and dialed
	closed bool
	dialed map[wire.Remote]func() // what ends each
}

var _ wire.Wire = (*Wire)(nil)

// Open starts the server. A store that it cannot read is the caller's to remove: the
// gateway's database has all that was in it.
func Open(ctx context.Context, c Config) (*Wire, error) {
	host, port, err := c.place()
	if err != nil {
		return nil, err
	}
	own, err := nkeys.CreateUser()
	if err != nil {
		return nil, err
	}
	ownKey, err := own.PublicKey()
	if err != nil {
		return nil, err
	}

	accounts, users, err := c.accounts(ownKey)
	if err != nil {
		return nil, err
	}
	s, err := server.NewServer(&server.Options{
		ServerName: c.Node, Host: host, Port: port, NoSigs: true, NoLog: true,
		TLSConfig:  &tls.Config{Certificates: []tls.Certificate{c.Certificate}, MinVersion: tls.VersionTLS13},
		TLSTimeout: 5, AuthTimeout: 10, MaxPayload: wire.MaxMessage + headerRoom, MaxConn: 4*len(c.Peers) + 8,
		JetStream: true, SyncAlways: true, StoreDir: c.Dir,
		JetStreamMaxMemory: 1 << 20, JetStreamMaxStore: c.MaxStore,
		Accounts: accounts, Nkeys: users,
	})
	if err != nil {
		return nil, fmt.Errorf("wire of %s: %w", c.Node, err)
	}

	w := &Wire{node: c.Node, peers: map[string]Peer{}, server: s, dialed: map[wire.Remote]func(){}}
	for _, p := range c.Peers {
		w.peers[p.Node] = p
	}
	if err := w.start(ctx, own, ownKey); err != nil {
		return nil, errors.Join(fmt.Errorf("wire of %s: %w", c.Node, err), w.Close())
	}
	return w, nil
}

// place checks the configuration and returns where the server listens.
func (c Config) place() (host string, port int, err error) {
	names := map[string]bool{}
	for _, p := range append([]Peer{{Node: c.Node}}, c.Peers...) {
		if !nodeForm.MatchString(p.Node) || names[p.Node] {
			return "", 0, fmt.Errorf("node %.70q is no name of its own of letters, digits, - and _", p.Node)
		}
		names[p.Node] = true
	}

	addr, err := net.ResolveTCPAddr("tcp", c.Listen)
	if err != nil {
		return "", 0, fmt.Errorf("listen address %.100q: %w", c.Listen, err)
	}
	if addr.Port == 0 {
		addr.Port = server.RANDOM_PORT
	}
	host = "0.0.0.0"
	if addr.IP != nil {
		host = addr.IP.String()
	}
	return host, addr.Port, nil
}

// accounts makes the gateway's own account and one per peer. What a peer may ask is
// imported into its account: nothing else of this server exists there. The permissions
// keep it from talking to itself in its account.
func (c Config) accounts(ownKey string) ([]*server.Account, []*server.NkeyUser, error) {
	own := server.NewAccount("own")
	accounts := []*server.Account{own}
	users := []*server.NkeyUser{{Nkey: ownKey, Account: own}}

	for _, p := range c.Peers {
		if !nkeys.IsValidPublicUserKey(p.Key) {
			return nil, nil, fmt.Errorf("peer %s: %.60q is no public key of a user", p.Node, p.Key)
		}
		account := server.NewAccount("peer-" + p.Node)
		may := []string{}
		for _, service := range []struct {
			prefix, subject string
			answers         server.ServiceRespType
		}{
			{ownAPI, "STREAM.INFO." + outboxStream, server.Singleton},
			{ownAPI, "DIRECT.GET." + outboxStream, server.Streamed},
			{ownAPI, "STREAM.INFO." + recordStream, server.Singleton},
			{ownAPI, "DIRECT.GET." + recordStream, server.Streamed},
			{"", cursorSubject + p.Node, server.Singleton},
		} {
			from, to := service.subject, service.prefix+service.subject
			only := []*server.Account{account}
			if service.prefix != "" {
				from, only = peerAPI+from, nil // all peers have it
			}
			err := own.AddServiceExportWithResponse(to, service.answers, only)
			if err == nil {
				err = account.AddServiceImport(own, from, to)
			}
			if err != nil {
				return nil, nil, fmt.Errorf("peer %s: %s: %w", p.Node, from, err)
			}
			may = append(may, from)
		}

		if err := own.AddStreamExport(wakeSubject, nil); err != nil {
			return nil, nil, err
		}
		if err := account.AddStreamImport(own, wakeSubject, ""); err != nil {
			return nil, nil, fmt.Errorf("peer %s: %w", p.Node, err)
		}
		accounts = append(accounts, account)
		users = append(users, &server.NkeyUser{Nkey: p.Key, Account: account, Permissions: &server.Permissions{
			Publish:   &server.SubjectPermission{Allow: may},
			Subscribe: &server.SubjectPermission{Allow: []string{inbox(p.Node) + ".>", wakeSubject}},
		}})
	}
	return accounts, users, nil
}

// inbox is the prefix of the subjects on which a peer gets its answers.
func inbox(node string) string { return "_INBOX_" + node }

// start opens the store, and the connection of the gateway itself.
func (w *Wire) start(ctx context.Context, own nkeys.KeyPair, ownKey string) error {
	w.server.Start()
	if !w.server.ReadyForConnections(startTime) {
		return errors.New("the server does not start: see its store and its address")
	}
	account, err := w.server.LookupAccount("own")
	if err != nil {
		return err
	}
	if err := account.EnableJetStream(nil, nil); err != nil {
		return fmt.Errorf("store: %w", err)
	}

	w.conn, err = nats.Connect("", nats.InProcessServer(w.server), nats.Nkey(ownKey, own.Sign), nats.MaxReconnects(-1))
	if err != nil {
		return err
	}
	if w.js, err = jetstream.New(w.conn); err != nil {
		return err
	}
	if _, err := w.js.CreateOrUpdateStream(ctx, recordsConfig()); err != nil {
		return fmt.Errorf("stream of records: %w", err)
	}
	for node := range w.peers {
		if _, err := w.js.CreateOrUpdateStream(ctx, cursorConfig(node)); err != nil {
			return fmt.Errorf("cursor of %s: %w", node, err)
		}
	}
	return nil
}

// Address is where the server listens.
func (w *Wire) Address() string { return w.server.Addr().String() }

// Close implements wire.Wire.
func (w *Wire) Close() error {
	w.mu.Lock()
	w.closed = true
	hangUps := w.dialed
	w.dialed = map[wire.Remote]func(){}
	w.mu.Unlock()

	for _, hangUp := range hangUps {
		hangUp()
	}
	if w.conn != nil {
		w.conn.Close()
	}
	w.server.Shutdown()
	w.server.WaitForShutdown()
	return nil
}

func outboxConfig(epoch string, first uint64) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: outboxStream, Subjects: []string{outboxSubject}, Storage: jetstream.FileStorage, Replicas: 1,
		AllowDirect: true, MaxMsgSize: wire.MaxMessage + headerRoom, Discard: jetstream.DiscardNew,
		FirstSeq: first, Metadata: map[string]string{epochField: epoch},
	}
}

func recordsConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: recordStream, Subjects: []string{recordSubject + ">"}, Storage: jetstream.FileStorage, Replicas: 1,
		AllowDirect: true, MaxMsgSize: wire.MaxRecord + headerRoom, MaxMsgsPerSubject: 1,
		MaxMsgs: wire.MaxRecords, Discard: jetstream.DiscardNew,
	}
}

// cursorConfig keeps the last cursor only, so a peer cannot fill the store.
func cursorConfig(node string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: cursorStream + node, Subjects: []string{cursorSubject + node}, Storage: jetstream.FileStorage, Replicas: 1,
		MaxMsgSize: wire.MaxCursor + headerRoom, MaxMsgs: 1, Discard: jetstream.DiscardOld,
	}
}

// pinned makes the TLS configuration that believes one certificate and no other.
func pinned(pin [sha256.Size]byte) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true, // the pin is checked in place of a name and an authority
		VerifyPeerCertificate: func(raw [][]byte, _ [][]*x509.Certificate) error {
			if len(raw) == 0 || sha256.Sum256(raw[0]) != pin {
				return errors.New("the certificate is not the one that the invite named")
			}
			return nil
		},
	}
}
