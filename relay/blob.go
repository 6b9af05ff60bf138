package relay

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/backoff"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

var (
	// ErrBlobMismatch is returned for a blob with another hash than the requested one.
	ErrBlobMismatch = errors.New("blob has another hash")
	// ErrBlobTooLarge is returned for a blob above the caller's limit.
	ErrBlobTooLarge = errors.New("blob is too large")
)

// BlobError is a refusal by a blob server.
type BlobError struct {
	Status int    // of HTTP
	Reason string // the server's text, free of control characters; may be empty
}

func (e *BlobError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("blob server answers %d", e.Status)
	}
	return fmt.Sprintf("blob server answers %d: %s", e.Status, e.Reason)
}

// BlobConfig limits the addresses that a [BlobClient] connects to. The zero value
// allows https:// to public addresses. URLs that other people name must not lead to
// this machine, and only to port 443 or most ports from 1024 on.
type BlobConfig struct {
	// Servers are the owner's own ("https://host:port"). They may have any port and
	// be on this machine's public addresses.
	Servers []string
	// AllowLoopback allows this machine, with http:// too.
	AllowLoopback bool
	// AllowHTTP allows http:// to public addresses.
	AllowHTTP bool
	// Timeout bounds one transfer; 5 min.
	Timeout time.Duration
}

// BlobClient uploads to and downloads from Blossom servers (BUD-01, BUD-02). It
// keeps idle connections for half a minute; [BlobClient.Close] closes them at once.
type BlobClient struct {
	timeout time.Duration
	servers map[string]bool // the owner's own, by siteOf
	// own connects to those servers, foreign to the ones in other people's URLs.
	own, foreign blobTransport
}

// blobTransport makes requests to the addresses that its guard allows.
type blobTransport struct {
	guard   guard
	clients map[string]*http.Client // by scheme
}

func newBlobTransport(g guard) blobTransport {
	return blobTransport{g, map[string]*http.Client{
		"http":  g.client("http", blobDialTimeout, idleBlobConns),
		"https": g.client("https", blobDialTimeout, idleBlobConns),
	}}
}

const (
	blobDialTimeout = 10 * time.Second
	// idleBlobConns is how many idle connections to a server are kept: as many as
	// the embedded server allows a key parallel uploads.
	idleBlobConns = 8
)

// NewBlobClient makes a client.
func NewBlobClient(cfg BlobConfig) *BlobClient {
	g := guard{loopback: cfg.AllowLoopback, plainHTTP: cfg.AllowHTTP}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 5 * time.Minute
	}
	c := &BlobClient{timeout: cfg.Timeout, servers: map[string]bool{}, own: newBlobTransport(g)}
	for _, server := range cfg.Servers {
		c.servers[siteOf(server)] = true
	}
	g.notOwn, g.relayPorts = true, true
	c.foreign = newBlobTransport(g)
	return c
}

// siteOf is the scheme, host and port of an address.
func siteOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme + "://" + u.Host)
}

// transportFor returns the transport for a URL that other people may have named.
func (c *BlobClient) transportFor(from string) blobTransport {
	if c.servers[siteOf(from)] {
		return c.own
	}
	return c.foreign
}

// Close closes the idle connections. Running transfers go on, and new ones may begin.
func (c *BlobClient) Close() {
	for _, t := range []blobTransport{c.own, c.foreign} {
		for _, hc := range t.clients {
			hc.CloseIdleConnections()
		}
	}
}

// Descriptor says where an uploaded blob is.
type Descriptor struct {
	URL      string
	Digest   hashing.Digest
	Size     int64
	Type     string
	Uploaded time.Time
}

const (
	kindBlobAuth = 24242
	// authLife is how long an authorization is valid; authSkew is how far our clock
	// may be ahead of the server's.
	authLife = 10 * time.Minute
	authSkew = 30 * time.Second
	// maxAnswer bounds a server's JSON, in bytes.
	maxAnswer = 64 << 10
	// busyPause is the mean pause before a busy server is asked again. It doubles up
	// to maxBusyPause, some three seconds in all.
	busyPause    = 50 * time.Millisecond
	maxBusyPause = 1600 * time.Millisecond
)

// Upload stores data on the server ("https://host") and checks that the server
// names the same blob. Uploading a blob again is harmless. A server that says
// it is busy (503, 429) is asked again for a few seconds.
func (c *BlobClient) Upload(ctx context.Context, server string, data []byte, mime string, by Signer) (Descriptor, error) {
	return c.upload(ctx, c.own, server, data, mime, by)
}

// upload stores data with an authorization that has further tags.
func (c *BlobClient) upload(ctx context.Context, to blobTransport, server string, data []byte, mime string, by Signer, tags ...nostr.Tag) (Descriptor, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	digest := hashing.Bytes(data)
	header := http.Header{"Content-Type": {mime}, "X-Sha-256": {digest.Hex()}}
	if len(tags) > 0 {
		// Into a room goes what may be there already: a server that has it, or refuses it,
		// says so before the bytes are sent, and no answer is lost with the connection.
		header.Set("Expect", "100-continue")
	}
	tags = append([]nostr.Tag{{"t", "upload"}, {"x", digest.Hex()}}, tags...)
	auth, err := authorization(ctx, by, server, "Upload "+digest.Hex(), tags, time.Now())
	if err != nil {
		return Descriptor{}, fmt.Errorf("upload blob: %w", err)
	}
	header.Set("Authorization", auth)
	resp, err := to.put(ctx, strings.TrimRight(server, "/")+"/upload", data, header)
	if err != nil {
		return Descriptor{}, fmt.Errorf("upload blob: %w", err)
	}
	defer resp.Body.Close()

	d, err := readDescriptor(resp.Body)
	if err != nil {
		return Descriptor{}, fmt.Errorf("upload blob: %w", err)
	}
	if d.Digest != digest || d.Size != int64(len(data)) {
		return Descriptor{}, fmt.Errorf("upload blob: %w", ErrBlobMismatch)
	}

	return d, nil
}

// put sends an upload, and retries a few times if the server is busy. Upload slots
// come free within milliseconds, so this is cheaper than an error whose caller
// retries at the same moment as all others.
func (d blobTransport) put(ctx context.Context, url string, data []byte, header http.Header) (*http.Response, error) {
	for pause := busyPause; ; pause *= 2 {
		resp, err := d.do(ctx, http.MethodPut, url, data, header)
		if !isBusy(err) || pause > maxBusyPause || backoff.Sleep(ctx, pause/2+rand.N(pause)) != nil {
			return resp, err
		}
	}
}

func isBusy(err error) bool {
	var refused *BlobError
	return errors.As(err, &refused) &&
		(refused.Status == http.StatusServiceUnavailable || refused.Status == http.StatusTooManyRequests)
}

// Delete asks the server ("https://host") to delete our blob. One that it does not have,
// or that it has for others alone, is deleted already.
func (c *BlobClient) Delete(ctx context.Context, server string, digest hashing.Digest, by Signer) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	auth, err := authorization(ctx, by, server, "Delete "+digest.Hex(), nostr.Tags{{"t", "delete"}, {"x", digest.Hex()}}, time.Now())
	if err != nil {
		return fmt.Errorf("delete blob: %w", err)
	}
	resp, err := c.own.do(ctx, http.MethodDelete, strings.TrimRight(server, "/")+"/"+digest.Hex(), nil, http.Header{"Authorization": {auth}})
	var refused *BlobError
	switch {
	case errors.As(err, &refused) && (refused.Status == http.StatusNotFound || refused.Status == http.StatusForbidden):
		return nil
	case err != nil:
		return fmt.Errorf("delete blob: %w", err)
	}
	return resp.Body.Close()
}

// authorization makes the BUD-11 header for what the tags name, at one server. The
// server cannot use it at another.
func authorization(ctx context.Context, by Signer, server, content string, tags nostr.Tags, at time.Time) (string, error) {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("%q is not the address of a server", server)
	}
	ev := nostr.Event{
		Kind:      kindBlobAuth,
		CreatedAt: nostr.Timestamp(at.Add(-authSkew).Unix()), // "created_at must be in the past"
		Content:   content,
		Tags: append(tags,
			nostr.Tag{"server", strings.ToLower(u.Hostname())}, // "the domain name", without scheme and port
			nostr.Tag{"expiration", strconv.FormatInt(at.Add(authLife).Unix(), 10)},
		),
	}
	if err := by.Sign(ctx, &ev); err != nil {
		return "", fmt.Errorf("sign authorization: %w", err)
	}
	return "Nostr " + base64.StdEncoding.EncodeToString(nip01.Marshal(&ev)), nil
}

// Download fetches the blob at the URL, which may come from a stranger, and
// returns it only if it has the digest and at most maxBytes.
func (c *BlobClient) Download(ctx context.Context, from string, want hashing.Digest, maxBytes int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	resp, err := c.transportFor(from).do(ctx, http.MethodGet, from, nil, http.Header{})
	if err != nil {
		return nil, fmt.Errorf("download blob: %w", err)
	}
	defer resp.Body.Close()

	if resp.ContentLength > maxBytes {
		return nil, fmt.Errorf("download blob: %w: %d bytes, limit %d", ErrBlobTooLarge, resp.ContentLength, maxBytes)
	}

	// The body may be longer or shorter than Content-Length says, so the buffer grows
	// with the bytes that arrive.
	var buf bytes.Buffer
	n, err := buf.ReadFrom(io.LimitReader(resp.Body, maxBytes+1))
	if err != nil {
		return nil, fmt.Errorf("download blob: %w", err)
	}
	if n > maxBytes {
		return nil, fmt.Errorf("download blob: %w: limit %d", ErrBlobTooLarge, maxBytes)
	}
	if hashing.Bytes(buf.Bytes()) != want {
		return nil, fmt.Errorf("download blob: %w", ErrBlobMismatch)
	}

	return buf.Bytes(), nil
}

// do sends a request and returns an answer of status 2xx, whose body the caller
// closes. Any other status is a *BlobError.
func (d blobTransport) do(ctx context.Context, method, raw string, body []byte, header http.Header) (*http.Response, error) {
	u, err := d.guard.url(raw)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = header.Clone() // an answer may come before all of the last request went
	req.Header.Set("User-Agent", "lightwork")

	// Every request may be repeated on a new connection if the server has just closed
	// an idle one. net/http reads this key as permission, and does not send it.
	req.Header["Idempotency-Key"] = nil
	resp, err := d.clients[u.Scheme].Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		return nil, refusal(resp)
	}

	return resp, nil
}

func refusal(resp *http.Response) error {
	e := &BlobError{Status: resp.StatusCode, Reason: nip01.Clean(resp.Header.Get("X-Reason"))}
	if e.Reason == "" {
		var answer struct {
			Message string `json:"message"`
		}
		if decodeAnswer(resp.Body, &answer) == nil {
			e.Reason = nip01.Clean(answer.Message)
		}
	}
	return e
}

func readDescriptor(r io.Reader) (Descriptor, error) {
	var a struct {
		URL      string `json:"url"`
		SHA256   string `json:"sha256"`
		Size     int64  `json:"size"`
		Type     string `json:"type"`
		Uploaded int64  `json:"uploaded"`
	}
	if err := decodeAnswer(r, &a); err != nil {
		return Descriptor{}, err
	}
	digest, err := hashing.ParseDigest(a.SHA256)
	if err != nil {
		return Descriptor{}, fmt.Errorf("read descriptor: %w", err)
	}
	u, err := url.Parse(a.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || !strings.Contains(u.Path, digest.Hex()) {
		return Descriptor{}, errors.New("read descriptor: its URL is not that of the blob")
	}
	return Descriptor{a.URL, digest, a.Size, nip01.Clean(a.Type), time.Unix(a.Uploaded, 0).UTC()}, nil
}

// decodeAnswer reads a server's JSON. Unknown fields are allowed: "servers MAY
// include additional fields".
func decodeAnswer(r io.Reader, v any) error {
	doc, err := io.ReadAll(io.LimitReader(r, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if len(doc) > maxAnswer {
		return fmt.Errorf("read answer: longer than %d bytes", maxAnswer)
	}
	if err := hashing.UnmarshalKnown(doc, v); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}

	return nil
}
