package config

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

const (
	DefaultRelayListen = "127.0.0.1:7447"
)

// Relay is the embedded relay of lightwork relay.
type Relay struct {
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
	// Uploaders may upload blobs beside the owners and what these open rooms for;
	// [server.Anyone] stands for everybody.
	Uploaders []string `yaml:"uploaders"`
	// Sizes of blobs in MiB, 0 for the relay's defaults.
	BlobMaxMB   int `yaml:"blob_max_mb"`
	BlobKeyMB   int `yaml:"blob_key_mb"`
	BlobTotalMB int `yaml:"blob_total_mb"`
	// PrivateKinds are read by their parties alone: left out the usual ones,
	// empty none.
	PrivateKinds *[]int      `yaml:"private_kinds"`
	Retention    []Retention `yaml:"retention"`
	Metrics      string      `yaml:"metrics"`
}

// Retention is how long the relay keeps events of some kinds, and how many.
type Retention struct {
	Kinds    []KindRange   `yaml:"kinds"`
	MaxAge   time.Duration `yaml:"max_age"`
	MaxCount int           `yaml:"max_count"`
	Refuse   bool          `yaml:"refuse"`
}

// KindRange is a kind, or two with a hyphen between them.
type KindRange struct{ First, Last int }

var errKindRange = errors.New("a kind is a number up to 65535, a range two of them as 5000-6999")

// UnmarshalText reads a kind or a range.
func (k *KindRange) UnmarshalText(text []byte) error {
	first, last, isRange := strings.Cut(string(text), "-")
	if !isRange {
		last = first
	}
	a, errA := strconv.ParseUint(first, 10, 16)
	b, errB := strconv.ParseUint(last, 10, 16)
	if errA != nil || errB != nil || b < a {
		return errKindRange
	}
	*k = KindRange{int(a), int(b)}
	return nil
}

// maxMessagesPerSecond is more than any relay does.
const maxMessagesPerSecond = 1_000_000

func (r *Relay) check() *Problem {
	if _, err := PublicKeyHex(r.PubKey); err != nil && r.PubKey != "" {
		return Mistake("$.relay.pubkey", "must be an npub or 64 hex digits")
	}

	for i, key := range slices.Concat(r.Owners, r.Uploaders) {
		if _, err := PublicKeyHex(key); err == nil || i >= len(r.Owners) && key == server.Anyone {
			continue
		}
		if n := len(r.Owners); i >= n {
			return Mistake(fmt.Sprintf("$.relay.uploaders[%d]", i-n), `must be an npub or 64 hex digits; "*" is everybody`)
		}
		return Mistake(fmt.Sprintf("$.relay.owners[%d]", i), "must be an npub or 64 hex digits")
	}

	if bad := r.checkBlobs(); bad != nil {
		return bad
	}
	if r.MinPow < 0 || r.MinPow > 64 {
		return Mistake("$.relay.min_pow", "must be from 0 to 64 bits")
	}
	if r.MessagesPerSecond < 0 || r.MessagesPerSecond > maxMessagesPerSecond {
		return Mistake("$.relay.messages_per_second", "must be from 1 to 1000000; 0 is the default, 1000")
	}
	if r.ConnectionsPerAddress < 0 {
		return Mistake("$.relay.connections_per_address", "must be at least 1; 0 is the default, 64")
	}

	for i, p := range r.Proxies {
		if _, err := ParseNetwork(p); err != nil {
			return Mistake(fmt.Sprintf("$.relay.proxies[%d]", i), "must be an IP address or a network, for example 127.0.0.1 or 10.0.0.0/8")
		}
	}

	if bad := checkListen("$.relay.listen", r.Listen, DefaultRelayListen); bad != nil {
		return bad
	}
	if bad := checkListen("$.relay.metrics", r.Metrics, "127.0.0.1:9447"); bad != nil {
		return bad
	}
	if server.CheckPublicURL(r.PublicURL) != nil {
		return Mistake("$.relay.public_url", "must be http(s)://HOST, without a path")
	}

	for i, rule := range r.Retention {
		path := fmt.Sprintf("$.relay.retention[%d]", i)
		switch {
		case rule.MaxAge < 0:
			return Mistake(path+".max_age", "cannot be negative")
		case rule.MaxCount < 0:
			return Mistake(path+".max_count", "cannot be negative")
		case rule.Refuse && (rule.MaxAge > 0 || rule.MaxCount > 0):
			return Mistake(path+".refuse", "a rule either refuses or limits")
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
func (r *Relay) checkBlobs() *Problem {
	for _, size := range []struct {
		name string
		mb   int
	}{{"blob_max_mb", r.BlobMaxMB}, {"blob_key_mb", r.BlobKeyMB}, {"blob_total_mb", r.BlobTotalMB}} {
		if size.mb < 0 || size.mb > mostBlobTotalMB {
			return Mistake("$.relay."+size.name, "must be a number of MiB from 1 to 1073741824; 0 is the default")
		}
	}

	largest, total := cmp.Or(r.BlobMaxMB, defaultBlobMaxMB), cmp.Or(r.BlobTotalMB, defaultBlobTotalMB)
	switch {
	case largest > total:
		return Mistake("$.relay.blob_total_mb", fmt.Sprintf("must be at least blob_max_mb, %d", largest))
	case r.BlobKeyMB > 0 && r.BlobKeyMB <= largest: // a blob takes some bytes besides
		return Mistake("$.relay.blob_key_mb", fmt.Sprintf("must be more than blob_max_mb, %d", largest))
	case r.BlobKeyMB > total:
		return Mistake("$.relay.blob_key_mb", fmt.Sprintf("must be at most blob_total_mb, %d", total))
	}
	return nil
}

// PublicKeyHex reads a public key, an npub or hex.
func PublicKeyHex(text string) (string, error) {
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

// ParseNetwork reads a network, or an address as a network of one.
func ParseNetwork(text string) (netip.Prefix, error) {
	if ip, err := netip.ParseAddr(text); err == nil {
		return ip.Unmap().Prefix(ip.Unmap().BitLen())
	}
	net, err := netip.ParsePrefix(text)
	return net.Masked(), err
}
