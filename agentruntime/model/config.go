// Package model asks language models: it is a client of any endpoint that
// speaks the OpenAI API, for chat completions and for embeddings. What an
// endpoint sends is bounded in size and time and parsed strictly.
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

// Config says where the endpoint is and how long to bear with it.
type Config struct {
	// BaseURL is what comes before "/chat/completions", such as
	// "https://api.example.com/v1". Plain http is for loopback addresses only,
	// unless AllowHTTP is set.
	BaseURL   string
	AllowHTTP bool
	// KeyFile names a file that holds the key, mode 0600 and ours or root's;
	// KeyEnv an environment variable. At most one of them; neither: no key.
	KeyFile, KeyEnv string
	// Model is what to ask where a request names no model.
	Model string
	// FirstByte bounds the wait until a streamed answer begins, zero: 2 min;
	// Idle the wait for its next whole line, zero: 1 min; Total one question
	// with all its attempts and the waits between them, zero: 5 min.
	FirstByte, Idle, Total time.Duration
	// MaxResponse bounds one answer in bytes. Zero: 16 MiB.
	MaxResponse int64
	// Attempts is how often to ask at most. Zero: 3.
	Attempts int
	// Logger hears of attempts that failed, never of contents. Nil: none.
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

// Client asks one endpoint. It is safe for use by many goroutines.
type Client struct {
	cfg  Config
	base string
	// key is a function so that nothing that prints a Client prints the key.
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

// newHTTP neither follows redirects, which would carry the key to wherever the
// answer says, nor unpacks, nor goes through a proxy of the environment.
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

// Close drops the connections that are kept for reuse.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// CheckURL says why BaseURL would be refused.
func (cfg Config) CheckURL() error {
	_, err := cfg.base()
	return err
}

// base checks the URL. What it says about a bad one does not repeat it: it may
// hold a password.
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
