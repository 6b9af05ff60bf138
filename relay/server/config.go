// Package server is the embedded relay. It serves NIP-01, NIP-09, NIP-11, NIP-13,
// NIP-40, NIP-42, NIP-45 and NIP-70, and Blossom blobs (BUD-01, BUD-02) on the same
// port, and keeps everything in its own SQLite file and folder of blobs.
//
// The cheapest checks of an event come first: size, depth, shape, rate, duplicate id,
// hash, signature. A fixed number of workers checks signatures. An event is
// acknowledged once it is durable. A client that exceeds its rate is read from more
// slowly. Every client has its own queue, and one that does not read is dropped
// instead of delaying the others.
package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

// Config configures a [Server]. Only Dir is required.
type Config struct {
	// Dir holds relay.db and blobs/. It is created with mode 0700.
	Dir string
	// Log receives warnings about clients. If it is nil, nothing is logged.
	Log *slog.Logger

	// Name, Description, PubKey (hex), Contact and Version are for the
	// relay information document (NIP-11). All may be empty.
	Name, Description, PubKey, Contact, Version string

	// PublicURL is the http or https address of blobs, without a trailing slash. If
	// it is empty, the Host of each upload is used.
	PublicURL string

	// PrivateKinds are served only to an event's author and to those named in its p
	// tags, once they have authenticated (NIP-42). Nil stands for
	// [DefaultPrivateKinds]; an empty list makes all kinds public.
	PrivateKinds []int

	// Owners are the operator's own public keys (hex). A part of the storage is
	// reserved for them, and their events and blobs are not evicted for others.
	Owners []string

	// Uploaders are the public keys (hex) that may upload blobs besides the Owners,
	// besides what all of these open rooms for, and that may open rooms. [Anyone]
	// stands for all keys, each of which has a bound then.
	Uploaders []string

	// Proxies are the addresses of the operator's reverse proxies. The client's
	// address is taken from their X-Forwarded-For; without this setting, all clients
	// of a proxy count as one address.
	Proxies []netip.Prefix

	// Retention has rules for keeping events; the first rule for a kind applies.
	// Without rules, events are kept until EventTotalBytes is reached.
	Retention []Retention

	Limits Limits
}

// Limits are enforced for every client and published in the relay information
// document. Zero means the default given at each field.
type Limits struct {
	MaxMessageBytes  int // one websocket message; 128 KiB
	MaxEventBytes    int // one event in its shortest JSON form; 64 KiB
	MaxTags          int // tags of an event; 512
	MaxDeletions     int // targets of a deletion, kind 5; 100
	MaxFilters       int // filters of a REQ; 200
	MaxFilterValues  int // values of one list of a filter; 2000
	MaxLimit         int // stored events for one filter, also without a limit; 500
	MaxSubscriptions int // of a connection; 200
	MaxSubIDBytes    int // 64

	// MaxConnections bounds the websockets, and separately all other connections;
	// 1024. When all are taken, a client of an address with few connections replaces
	// one of the address with the most.
	MaxConnections int
	// MaxPerAddress bounds the websockets of one address (for IPv6, of a /64), and
	// separately its other connections; 64. If it is zero, this machine's own
	// addresses are exempt from all bounds of an address, here and below, because
	// all clients of a local reverse proxy have its address; see Config.Proxies.
	MaxPerAddress int
	// MaxQueueBytes is how much may be queued for one client before it is dropped;
	// 32 MiB. All clients of an address together may have twice that.
	MaxQueueBytes int
	// MaxInFlight bounds the events of one connection, and of one address, that
	// wait for their OK; at this bound the relay stops reading from it; 256. A
	// large event counts as several, see eventCost.
	MaxInFlight int
	// MessagesPerSecond and MessageBurst bound the messages of one connection;
	// 1000, and two seconds' worth. An address may send four times as much. A large
	// message counts as several, see messageCost. The relay stops reading from a
	// client that is too fast until it is within its rate; messages that would take
	// longer than a second are refused.
	MessagesPerSecond, MessageBurst int
	// MaxLiveValues and MaxLiveValuesTotal bound the values in the filters of open
	// subscriptions, for one connection and for all; 20,000 and 500,000. An address
	// may have an eighth of the total. A filter counts as 4 more, a value of more
	// than 64 bytes as several. The first 500 of each connection count neither for
	// its address nor for the total.
	MaxLiveValues, MaxLiveValuesTotal int

	// MaxAge and MaxAhead bound the difference between created_at and the relay's
	// clock; three years and 5 minutes.
	MaxAge, MaxAhead time.Duration

	// MinPow is the required proof of work (NIP-13), in leading zero bits of an
	// event's id, to which the event must commit; none.
	MinPow int

	// PingInterval is how often a silent connection is tested; 30 s. A client is
	// dropped if it does not answer, or takes longer than WriteTimeout (20 s) to
	// accept one message.
	PingInterval, WriteTimeout time.Duration

	// MaxBlobBytes is the largest blob; 32 MiB. BlobTotalBytes bounds all blobs
	// together, including 512 bytes for each owner of a blob; 8 GiB, a quarter of
	// which is reserved for the Owners. BlobKeyBytes bounds the blobs of a
	// stranger's key; a 64th of BlobTotalBytes, but at least one blob. If there is
	// no room for a stranger's new blob, the oldest uploads are evicted: first
	// those of the key with the most, as long as it has more than an eighth of
	// BlobKeyBytes, then those of all strangers. Running uploads may need up to
	// MaxUploads times MaxBlobBytes in addition.
	MaxBlobBytes, BlobTotalBytes, BlobKeyBytes int64
	// MaxUploads bounds the concurrent uploads; 32. A key may have a quarter of
	// them, an address three quarters.
	MaxUploads int

	// EventTotalBytes bounds the estimated space of all events and their index
	// entries; 2 GiB. Above it the oldest events are evicted, first those of keys
	// with more than an eighth of it. Replaceable and addressable events together
	// may use half of it, an eighth of which is reserved for the Owners, and those
	// of one key a 64th; above these bounds, the ones written longest ago are
	// evicted, first those of keys with more than a 2048th.
	EventTotalBytes int64
}

// Anyone among the Uploaders lets every key upload.
const Anyone = "*"

// isNamed reports whether the operator has named a key that may upload and open rooms.
func (c *Config) isNamed(key string) bool {
	return slices.Contains(c.Owners, key) || slices.Contains(c.Uploaders, key)
}

// mayUpload reports whether a key may upload without a room.
func (c *Config) mayUpload(key string) bool {
	return c.isNamed(key) || slices.Contains(c.Uploaders, Anyone)
}

// ErrConfig is wrapped by the errors of [New] for an unusable [Config].
var ErrConfig = errors.New("relay configuration")

func (l Limits) withDefaults() Limits {
	orInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}

	orTime := func(v *time.Duration, d time.Duration) {
		if *v <= 0 {
			*v = d
		}
	}
	orSize := func(v *int64, d int64) {
		if *v <= 0 {
			*v = d
		}
	}
	orInt(&l.MaxMessageBytes, 128<<10)
	orInt(&l.MaxEventBytes, 64<<10)
	orInt(&l.MaxTags, 512)
	orInt(&l.MaxDeletions, 100)
	orInt(&l.MaxFilters, 200)
	orInt(&l.MaxFilterValues, 2000)
	orInt(&l.MaxLimit, 500)
	orInt(&l.MaxSubscriptions, 200)
	orInt(&l.MaxSubIDBytes, 64)
	orInt(&l.MaxConnections, 1024)
	orInt(&l.MaxQueueBytes, 32<<20)
	orInt(&l.MaxInFlight, 256)
	orInt(&l.MessagesPerSecond, 1000)
	orInt(&l.MessageBurst, 2*l.MessagesPerSecond)
	orInt(&l.MaxLiveValues, 20_000)
	orInt(&l.MaxLiveValuesTotal, 500_000)
	orTime(&l.MaxAge, 3*365*24*time.Hour)
	orTime(&l.MaxAhead, 5*time.Minute)
	orTime(&l.PingInterval, 30*time.Second)
	orTime(&l.WriteTimeout, 20*time.Second)
	orSize(&l.MaxBlobBytes, 32<<20)
	orSize(&l.BlobTotalBytes, 8<<30)
	orSize(&l.BlobKeyBytes, max(l.BlobTotalBytes/64, l.MaxBlobBytes+ownedCost))
	orInt(&l.MaxUploads, 32)
	orSize(&l.EventTotalBytes, 2<<30)
	return l
}

func (l Limits) parser() nip01.Limits {
	return nip01.Limits{
		MaxTags:         l.MaxTags,
		MaxFilters:      l.MaxFilters,
		MaxFilterValues: l.MaxFilterValues,
		MaxSubID:        l.MaxSubIDBytes,
	}
}

// CheckPublicURL says why Config.PublicURL would be refused.
func CheckPublicURL(address string) error {
	u, err := url.Parse(address)
	if address != "" && (err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.Path != "") {
		return fmt.Errorf("%w: PublicURL %q is not http(s)://host", ErrConfig, address)
	}
	return nil
}

func (c *Config) validate() error {
	if c.Dir == "" {
		return fmt.Errorf("%w: Dir is empty", ErrConfig)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if err := CheckPublicURL(c.PublicURL); err != nil {
		return err
	}

	for _, k := range slices.Concat([]string{c.PubKey}, c.Owners, c.Uploaders) {
		if k != "" && !nostr.IsValid32ByteHex(k) && !(k == Anyone && slices.Contains(c.Uploaders, k)) {
			return fmt.Errorf("%w: %q is not a public key in hex", ErrConfig, k)
		}
	}

	for i := range c.Retention {
		if err := c.Retention[i].validate(); err != nil {
			return err
		}
	}

	if c.PrivateKinds == nil {
		c.PrivateKinds = DefaultPrivateKinds()
	}
	c.Limits = c.Limits.withDefaults()
	return nil
}
