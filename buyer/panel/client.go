package panel

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/buyer"
)

// Market is the relays.
type Market interface {
	// Listen hands every verified event that matches to handle until ctx ends;
	// ready is called whenever a relay has begun to serve the subscription.
	Listen(ctx context.Context, filters nostr.Filters, ready func(), handle func(nostr.Event)) error
	// Send offers the event to all relays; nil if at least one took it.
	Send(ctx context.Context, ev nostr.Event) error
}

// Config is all that panels need beside a buyer.
type Config struct {
	// Buyer buys from each member, within its limits. Its purchases are in the same
	// database as Store.
	Buyer  *buyer.Client
	Store  Store
	Market Market
	// Judge answers a question about results in words, for panels that are judged:
	// a language model, which is shown strangers' words as data. nil judges none.
	Judge func(ctx context.Context, question string) (answer string, err error)
	// AnswerTimeout is how long a member may be silent when it is asked to reveal,
	// and how long answers are read again after a restart (1 min).
	AnswerTimeout time.Duration
	Log           *slog.Logger
}

// Client buys with panels. Its methods may be called at the same time.
type Client struct {
	cfg   Config
	buyer *buyer.Client
}

// New checks the configuration.
func New(cfg Config) (*Client, error) {
	if cfg.Buyer == nil || cfg.Store == nil || cfg.Market == nil {
		return nil, errors.New("panel: buyer, store and market are required")
	}

	def(&cfg.AnswerTimeout, time.Minute)
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Client{cfg: cfg, buyer: cfg.Buyer}, nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
