package cli

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip19"

	"github.com/lightwork-market/lightwork/relay/server"
)

// relayConfig is the embedded relay of lightwork relay.
type relayConfig struct {
	Listen      string `yaml:"listen"`
	PublicURL   string `yaml:"public_url"`
	Description string `yaml:"description"`
	Contact     string `yaml:"contact"`
	PubKey      string `yaml:"pubkey"` // npub or hex
	MinPow      int    `yaml:"min_pow"`
	// MessagesPerSecond is what one connection may send, 0 for the relay's default.
	MessagesPerSecond int `yaml:"messages_per_second"`
	// ConnectionsPerAddress is 0 for the relay's default, which is not for this
	// machine's own addresses.
	ConnectionsPerAddress int `yaml:"connections_per_address"`
	// Proxies are addresses or networks whose X-Forwarded-For is believed.
	Proxies []string `yaml:"proxies"`
	// Owners are the operator's own keys (npub or hex) beside those of identity.
	Owners []string `yaml:"owners"`
	// Uploaders may upload blobs beside the owners; none stands for everybody.
	Uploaders []string `yaml:"uploaders"`
	// Sizes of blobs in MiB, 0 for the relay's defaults.
	BlobMaxMB   int `yaml:"blob_max_mb"`
	BlobKeyMB   int `yaml:"blob_key_mb"`
	BlobTotalMB int `yaml:"blob_total_mb"`
	// PrivateKinds are read by their parties alone: left out the usual ones,
	// empty none.
	PrivateKinds *[]int            `yaml:"private_kinds"`
	Retention    []retentionConfig `yaml:"retention"`
	Metrics      string            `yaml:"metrics"`
}

type retentionConfig struct {
	Kinds    []kindRange   `yaml:"kinds"`
	MaxAge   time.Duration `yaml:"max_age"`
	MaxCount int           `yaml:"max_count"`
	Refuse   bool          `yaml:"refuse"`
}

// kindRange is a kind, or two with a hyphen between them.
type kindRange server.KindRange

var errKindRange = errors.New("a kind is a number up to 65535, a range two of them as 5000-6999")

// UnmarshalText reads a kind or a range.
func (k *kindRange) UnmarshalText(text []byte) error {
	first, last, isRange := strings.Cut(string(text), "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || b < a {
		return errKindRange
	}
	*k = kindRange{int(a), int(b)}
	return nil
}

// maxMessagesPerSecond is more than any relay does.
const maxMessagesPerSecond = 1_000_000

func (r *relayConfig) check() *configError {
	if _, err := publicKeyHex(r.PubKey); err != nil && r.PubKey != "" {
		return &configError{"$.relay.pubkey", "must be an npub or 64 hex digits"}
	}
	for i, key := range slices.Concat(r.Owners, r.Uploaders) {
		if _, err := publicKeyHex(key); err == nil {
			continue
		}
		path := fmt.Sprintf("$.relay.owners[%d]", i)
		if n := len(r.Owners); i >= n {
			path = fmt.Sprintf("$.relay.uploaders[%d]", i-n)
		}
		return &configError{path, "must be an npub or 64 hex digits"}
	}
	if bad := r.checkBlobs(); bad != nil {
		return bad
	}
	if r.MinPow < 0 || r.MinPow > 64 {
		return &configError{"$.relay.min_pow", "must be from 0 to 64 bits"}
	}
	if r.MessagesPerSecond < 0 || r.MessagesPerSecond > maxMessagesPerSecond {
		return &configError{"$.relay.messages_per_second", "must be from 1 to 1000000; 0 is the default, 1000"}
	}
	if r.ConnectionsPerAddress < 0 {
		return &configError{"$.relay.connections_per_address", "must be at least 1; 0 is the default, 64"}
	}
	for i, p := range r.Proxies {
		if _, err := parseNetwork(p); err != nil {
			return &configError{fmt.Sprintf("$.relay.proxies[%d]", i), "must be an IP address or a network, for example 127.0.0.1 or 10.0.0.0/8"}
		}
	}
	if bad := checkListen("$.relay.listen", r.Listen, defaultRelayListen); bad != nil {
		return bad
	}
	if bad := checkListen("$.relay.metrics", r.Metrics, "127.0.0.1:9447"); bad != nil {
		return bad
	}
	if server.CheckPublicURL(r.PublicURL) != nil {
		return &configError{"$.relay.public_url", "must be http(s)://HOST, without a path"}
	}
	for i, rule := range r.Retention {
		path := fmt.Sprintf("$.relay.retention[%d]", i)
		switch {
		case rule.MaxAge < 0:
			return &configError{path + ".max_age", "cannot be negative"}
		case rule.MaxCount < 0:
			return &configError{path + ".max_count", "cannot be negative"}
		case rule.Refuse && (rule.MaxAge > 0 || rule.MaxCount > 0):
			return &configError{path + ".refuse", "a rule either refuses or limits"}
		}
	}
	return nil
}

// Sizes of the relay's blobs when the configuration says nothing, and the most
// that it may say, in MiB.
const (
	defaultBlobMaxMB   = 32
	defaultBlobTotalMB = 8 << 10
	mostBlobTotalMB    = 1 << 30
)

// checkBlobs holds the sizes of blobs against each other.
func (r *relayConfig) checkBlobs() *configError {
	for _, size := range []struct {
		name string
		mb   int
	}{{"blob_max_mb", r.BlobMaxMB}, {"blob_key_mb", r.BlobKeyMB}, {"blob_total_mb", r.BlobTotalMB}} {
		if size.mb < 0 || size.mb > mostBlobTotalMB {
			return &configError{"$.relay." + size.name, "must be a number of MiB from 1 to 1073741824; 0 is the default"}
		}
	}
	largest, total := cmp.Or(r.BlobMaxMB, defaultBlobMaxMB), cmp.Or(r.BlobTotalMB, defaultBlobTotalMB)
	switch {
	case largest > total:
		return &configError{"$.relay.blob_total_mb", fmt.Sprintf("must be at least blob_max_mb, %d", largest)}
	case r.BlobKeyMB > 0 && r.BlobKeyMB <= largest: // a blob takes some bytes besides
		return &configError{"$.relay.blob_key_mb", fmt.Sprintf("must be more than blob_max_mb, %d", largest)}
	case r.BlobKeyMB > total:
		return &configError{"$.relay.blob_key_mb", fmt.Sprintf("must be at most blob_total_mb, %d", total)}
	}
	return nil
}

// publicKeyHex reads a public key, an npub or hex.
func publicKeyHex(text string) (string, error) {
	if nostr.IsValid32ByteHex(text) {
		return text, nil
	}
	prefix, value, err := nip19.Decode(text)
	key, ok := value.(string)
	if err != nil || prefix != "npub" || !ok {
		return "", errors.Join(errors.New("no public key"), err)
	}
	return key, nil
}

// parseNetwork reads a network, or an address as a network of one.
func parseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap().Prefix(ip.Unmap().BitLen())
	}
	net, err := netip.ParsePrefix(text)
	return net.Masked(), err
}

// server is the relay's own configuration.
func (r *relayConfig) server() server.Config {
	key, _ := publicKeyHex(r.PubKey) // check has read all keys
	sc := server.Config{
		Version: version, PublicURL: r.PublicURL, Description: r.Description, Contact: r.Contact, PubKey: key,
		Limits: server.Limits{MinPow: r.MinPow, MessagesPerSecond: r.MessagesPerSecond, MaxPerAddress: r.ConnectionsPerAddress},
	}
	sc.Limits.MaxBlobBytes, sc.Limits.BlobKeyBytes, sc.Limits.BlobTotalBytes = int64(r.BlobMaxMB)<<20, int64(r.BlobKeyMB)<<20, int64(r.BlobTotalMB)<<20
	for _, text := range r.Owners {
		owner, _ := publicKeyHex(text)
		sc.Owners = append(sc.Owners, owner)
	}
	for _, text := range r.Uploaders {
		uploader, _ := publicKeyHex(text)
		sc.Uploaders = append(sc.Uploaders, uploader)
	}
	for _, p := range r.Proxies {
		net, _ := parseNetwork(p) // check has read it
		sc.Proxies = append(sc.Proxies, net)
	}
	if r.PrivateKinds != nil {
		sc.PrivateKinds = append([]int{}, *r.PrivateKinds...)
	}
	for _, rule := range r.Retention {
		kept := server.Retention{MaxAge: rule.MaxAge, MaxCount: rule.MaxCount, Refuse: rule.Refuse}
		for _, k := range rule.Kinds {
			kept.Kinds = append(kept.Kinds, server.KindRange(k))
		}
		sc.Retention = append(sc.Retention, kept)
	}
	return sc
}
