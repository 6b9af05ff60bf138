package nwc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nbd-wtf/go-nostr"
	"golang.org/x/sync/singleflight"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/relay"
)

// ErrServiceConfig is wrapped by NewService for an invalid configuration.
var ErrServiceConfig = errors.New("nwc: service configuration")

// allMethods are the methods that a service can offer.
var allMethods = [...]Method{
	PayInvoice, MakeInvoice, LookupInvoice, ListTransactions, GetBalance, GetBudget, GetInfo,
	MakeHoldInvoice, SettleHoldInvoice, CancelHoldInvoice,
}

// AllMethods returns the methods that a service can offer.
func AllMethods() []Method { return slices.Clone(allMethods[:]) }

// App is another application that may use the wallet. It sees only its own invoices
// and payments, and spends within its budget.
type App struct {
	Name    string
	Wallet  Secret   // our key for this connection only
	Client  string   // the app's public key, 64 hex digits
	Methods []Method // the methods that it may use
	// BudgetMsats bounds the cost of its payments in a Period, including fees. 0
	// allows no payments.
	BudgetMsats int64
	// Period is the budget's period. Periods begin at multiples of it since year 1,
	// so 24 h is a UTC day. 0 means that the budget never renews.
	Period time.Duration
	// ExpiresAt ends the connection. Zero means never.
	ExpiresAt time.Time
}

// NewApp makes the keys of a connection. The Connection is only for the app: it
// contains the app's secret, which the service does not need. The caller fills in
// the other fields of the App.
func NewApp(name string, relays []string) (App, Connection, error) {
	wallet, err := NewSecret()
	if err != nil {
		return App{}, Connection{}, err
	}
	client, err := NewSecret()
	if err != nil {
		return App{}, Connection{}, err
	}
	return App{Name: name, Wallet: wallet, Client: client.PublicKey()},
		Connection{Wallet: wallet.PublicKey(), Relays: relays, Secret: client}, nil
}

// ServiceConfig configures a [Service]. All fields but Log are required.
type ServiceConfig struct {
	Wallet payments.Wallet
	Book   *Book
	Apps   []App
	Relays []string
	Log    *slog.Logger
}

// app is an App with its running requests.
type app struct {
	App
	channel *channel
	slots   chan struct{} // one for each running request
}

// Service answers the requests of apps.
type Service struct {
	cfg     ServiceConfig
	pool    *relay.Pool
	apps    map[string]*app    // by the wallet's public key
	flights singleflight.Group // payments, by app and hash
	payer   atomic.Pointer[payments.Node]

	hints chan payments.Hash // changed invoices
	sent  chan sentNote      // succeeded payments
}

// maxAtWork bounds the concurrent requests of one app. The payment of a hold
// invoice counts until it ends.
const maxAtWork = 128

// NewService checks cfg. It does not connect; Serve does.
func NewService(cfg ServiceConfig) (*Service, error) {
	if cfg.Wallet == nil || cfg.Book == nil {
		return nil, fmt.Errorf("%w: wallet and book are required", ErrServiceConfig)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	pool, err := relay.NewPool(relay.Config{URLs: cfg.Relays, Log: cfg.Log, MaxEventBytes: maxEvent})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrServiceConfig, err)
	}

	s := &Service{cfg: cfg, pool: pool, apps: map[string]*app{}, hints: make(chan payments.Hash, 1024), sent: make(chan sentNote, 1024)}
	clients := map[string]bool{}
	for _, a := range cfg.Apps {
		if err := a.validate(); err != nil {
			return nil, fmt.Errorf("%w: app %q: %w", ErrServiceConfig, a.Name, err)
		}
		key := a.Wallet.PublicKey()
		if s.apps[key] != nil || clients[a.Client] {
			return nil, fmt.Errorf("%w: app %q shares its key with another", ErrServiceConfig, a.Name)
		}
		ch, err := newChannel(a.Wallet, a.Client)
		if err != nil {
			return nil, fmt.Errorf("%w: app %q: %w", ErrServiceConfig, a.Name, err)
		}
		clients[a.Client] = true
		s.apps[key] = &app{App: a, channel: ch, slots: make(chan struct{}, maxAtWork)}
	}

	if len(s.apps) == 0 {
		return nil, fmt.Errorf("%w: no apps", ErrServiceConfig)
	}
	return s, nil
}

func (a *App) validate() error {
	if a.Wallet.key == nil || !nostr.IsValidPublicKey(a.Client) || a.Client == a.Wallet.PublicKey() {
		return errors.New("its keys are missing or wrong")
	}

	for _, m := range a.Methods {
		if !slices.Contains(allMethods[:], m) {
			return fmt.Errorf("no such method: %q", m)
		}
	}

	if err := payments.CheckMsats(a.BudgetMsats); err != nil {
		return fmt.Errorf("budget: %w", err)
	}
	if a.Period < 0 {
		return fmt.Errorf("period %v", a.Period)
	}

	return nil
}

// since is the start of the budget's current period.
func (a *App) since(now time.Time) time.Time {
	if a.Period == 0 {
		return time.UnixMilli(0)
	}
	return now.UTC().Truncate(a.Period)
}

func (a *App) may(m Method) bool { return slices.Contains(a.Methods, m) }

// infoEvent announces the app's methods.
func (a *App) infoEvent() (nostr.Event, error) {
	list := []string{wordNotifications}
	for _, m := range a.Methods {
		list = append(list, string(m))
	}
	if a.may(MakeInvoice) {
		list = append(list, wordPreimage)
	}
	if a.may(PayInvoice) {
		list = append(list, wordFeeLimit)
	}
	ev := nostr.Event{
		Kind: kindInfo, CreatedAt: nostr.Now(), Content: strings.Join(list, " "),
		Tags: nostr.Tags{
			{"encryption", string(NIP44) + " " + string(NIP04)},
			{"notifications", strings.Join(noteTypes[:], " ")},
		},
	}
	return ev, a.Wallet.sign(&ev)
}

var noteTypes = [...]string{notePaymentReceived, notePaymentSent, noteHoldAccepted}

// Serve answers requests until ctx ends, and then returns nil. Payments in flight
// continue without it; the next Serve finds out how they ended. It must be called
// only once.
func (s *Service) Serve(ctx context.Context) error {
	open, err := s.cfg.Book.Open(ctx)
	if err != nil {
		return fmt.Errorf("read payments under way: %w", err)
	}
	var work sync.WaitGroup
	defer work.Wait()

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	work.Go(func() { _ = s.pool.Serve(ctx) }) // always returns nil
	sub, err := s.subscribe(ctx)
	if err != nil {
		return fmt.Errorf("subscribe to requests: %w", err)
	}
	defer sub.Close()

	for _, spend := range open {
		work.Go(func() { s.resume(ctx, spend) })
	}
	work.Go(func() { s.watch(ctx) })
	work.Go(func() { s.notifyAll(ctx) })

	select {
	case <-sub.Ready(): // apps should not send requests before we can receive them
	case <-ctx.Done():
		return nil
	}

	work.Go(func() { s.announce(ctx) })
	for in := range sub.Events() {
		s.take(ctx, &work, in.Event)
	}
	return nil
}

func (s *Service) subscribe(ctx context.Context) (*relay.Subscription, error) {
	f := nostr.Filter{Kinds: []int{kindRequest}, Tags: nostr.TagMap{}, LimitZero: true}
	for key, a := range s.apps {
		f.Authors = append(f.Authors, a.Client)
		f.Tags["p"] = append(f.Tags["p"], key)
	}
	return s.pool.Subscribe(ctx, []nostr.Filter{f}, relay.SubscribeOptions{})
}

// take starts a goroutine for a request if the app has a free slot.
func (s *Service) take(ctx context.Context, work *sync.WaitGroup, ev nostr.Event) {
	tag := ev.Tags.Find("p")
	if len(tag) < 2 || domain.Allow(domain.Wallet, ev.Tags) != nil {
		return
	}
	a := s.apps[tag[1]]
	if a == nil || a.Client != ev.PubKey {
		return // the request is for another app's connection
	}

	select {
	case a.slots <- struct{}{}:
		work.Go(func() {
			defer func() { <-a.slots }()
			s.serve(ctx, a, &ev)
		})
	default:
		s.cfg.Log.Warn("an app asks too much at once", "app", a.Name)
	}
}

// announce publishes the info events now and every hour, because relays drop
// events.
func (s *Service) announce(ctx context.Context) {
	for pause := time.Second; ; {
		missing := 0
		for _, a := range s.apps {
			ev, err := a.infoEvent()
			if err != nil || relay.Accepted(s.pool.Publish(ctx, ev)) == 0 {
				missing++
			}
		}

		wait := time.Hour
		if missing > 0 {
			wait, pause = pause, min(2*pause, time.Minute)
		}

		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}
