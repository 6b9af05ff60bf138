// Package model is a client for language model endpoints that speak the OpenAI API,
// for chat completions and embeddings. Answers are bounded in size and time and are
// parsed strictly.
package model

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config describes the endpoint and its time limits.
type Config struct {
	// BaseURL precedes "/chat/completions", such as "https://api.example.com/v1".
	// Plain http is allowed for loopback addresses only, unless AllowHTTP is set.
	BaseURL   string
	AllowHTTP bool
	// KeyFile names a file with the key, of mode 0600 and owned by us or root;
	// KeyEnv names an environment variable with the key. At most one may be set;
	// without either, no key is sent.
	KeyFile, KeyEnv string
	// Model is the model for requests that name none.
	Model string
	// FirstByte bounds the wait until a streamed answer begins (default 2 min),
	// Idle the wait for each next line (default 1 min), and Total one question with
	// all attempts and waits (default 5 min).
	FirstByte, Idle, Total time.Duration
	// MaxResponse bounds an answer in bytes. Default: 16 MiB.
	MaxResponse int64
	// Attempts is the maximum number of requests. Default: 3.
	Attempts int
	// Logger receives failed attempts, never contents. If it is nil, nothing is
	// logged.
	Logger *slog.Logger
}

const (
	defaultFirstByte   = 2 * time.Minute
	defaultIdle        = time.Minute
	defaultTotal       = 5 * time.Minute
	defaultMaxResponse = 16 << 20
	defaultAttempts    = 3
	maxAttempts        = 10

	connectTimeout     = 10 * time.Second
	idleConnection     = 90 * time.Second
	maxResponseHeaders = 64 << 10
)

// Client is a client of one endpoint. It is safe for concurrent use.
type Client struct {
	cfg  Config
	base string
	// key is a function, so that printing a Client does not print the key.
	key  func() string
	http *http.Client
}

// New checks the configuration and reads the key.
func New(cfg Config) (*Client, error) {
	base, err := cfg.base()
	if err != nil {
		return nil, fmt.Errorf("model endpoint: %w", err)
	}
	if cfg.FirstByte < 0 || cfg.Idle < 0 || cfg.Total < 0 || cfg.MaxResponse < 0 || cfg.Attempts < 0 || cfg.Attempts > maxAttempts {
		return nil, errors.New("model endpoint: a limit is out of range")
	}

	key, err := readKey(cfg.KeyFile, cfg.KeyEnv)
	if err != nil {
		return nil, fmt.Errorf("model endpoint: %w", err)
	}
	orDefault(&cfg.FirstByte, defaultFirstByte)
	orDefault(&cfg.Idle, defaultIdle)
	orDefault(&cfg.Total, defaultTotal)
	orDefault(&cfg.MaxResponse, defaultMaxResponse)
	orDefault(&cfg.Attempts, defaultAttempts)
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Client{cfg: cfg, base: base, key: func() string { return key }, http: newHTTP()}, nil
}

func orDefault[T comparable](v *T, d T) {
	if *v == *new(T) {
		*v = d
	}
}

// newHTTP returns a client that follows no redirects (which would carry the key to
// another host), does not decompress, and ignores the environment's proxies.
func newHTTP() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: connectTimeout}).DialContext,
			TLSHandshakeTimeout:    connectTimeout,
			IdleConnTimeout:        idleConnection,
			MaxResponseHeaderBytes: maxResponseHeaders,
			DisableCompression:     true,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// CheckURL reports why BaseURL would be refused.
func (cfg Config) CheckURL() error {
	_, err := cfg.base()
	return err
}

// base checks the URL. Its errors do not repeat the URL, which may contain a
// password.
func (cfg Config) base() (string, error) {
	u, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return "", errors.New("the URL is malformed")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return "", errors.New("the URL must not contain a user, query or fragment")
	case u.Scheme == "http" && !cfg.AllowHTTP && !loopback(u.Hostname()):
		return "", errors.New("plain http is for loopback addresses only")
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("the URL is neither http nor https")
	}

	return strings.TrimSuffix(u.String(), "/"), nil
}

func loopback(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}
