package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sync/semaphore"
)

// shutdownGrace is how long running blob transfers may take to finish.
const shutdownGrace = 2 * time.Second

// Server is a relay. New opens its store, Serve runs it.
type Server struct {
	cfg     Config
	store   *store
	blobs   *blobStore
	rooms   *roomStore
	index   *index
	metrics *metrics

	// The way of an event: workers check its signature, one goroutine stores it,
	// and another hands it to subscribers.
	inFlight   *semaphore.Weighted // the cost of all events on this way
	unverified *fair[*job]         // closed when no client is left
	verified   *fair[*job]         // closed after the workers
	spread     chan delivery       // closed after ingestion
	deliveries *fair[delivery]
	announced  uint64 // events so far; owned by the spreading goroutine
	underway   int    // events with outstanding deliveries; owned by the spreading goroutine

	spreading spreading
	recent    *recent

	unnamedProxy sync.Once // the warning about its clients was logged

	hosts      *hosts
	slots      *slots        // of websockets
	conns      *conns        // of all other connections
	authChecks chan struct{} // one for each signature of an AUTH message
	queries    *queryQueue
	uploads    *uploads

	mu       sync.Mutex
	closing  bool           // no new requests
	requests sync.WaitGroup // all running requests and websockets
}

// New opens or creates the store in cfg.Dir. The caller must call Serve, or else
// Close.
func New(ctx context.Context, cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	st, err := openStore(ctx, cfg.Dir, cfg.Limits.EventTotalBytes, cfg.Owners, cfg.Log)
	if err != nil {
		return nil, fmt.Errorf("open relay: %w", err)
	}
	blobs, err := openBlobs(ctx, st.db, cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open relay: %w", err), st.close())
	}

	rooms, err := openRooms(ctx, blobs)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open relay: %w", err), st.close())
	}

	return &Server{
		cfg:        cfg,
		store:      st,
		blobs:      blobs,
		rooms:      rooms,
		index:      newIndex(cfg.Limits.MaxLiveValues, cfg.Limits.MaxLiveValuesTotal),
		metrics:    newMetrics(),
		recent:     newRecent(),
		inFlight:   semaphore.NewWeighted(max(maxInFlight, int64(cfg.Limits.MaxInFlight))),
		unverified: newFair[*job](),
		verified:   newFair[*job](),
		spread:     make(chan delivery, maxSpread),
		deliveries: newFair[delivery](),
		hosts:      newHosts(cfg.Limits),
		slots:      newSlots(cfg.Limits.MaxConnections, cfg.Limits.perAddress),
		conns:      newConns(cfg.Limits.MaxConnections, cfg.connsOf),
		queries:    newQueryQueue(),
		authChecks: make(chan struct{}, runtime.GOMAXPROCS(0)),
		uploads:    newUploads(cfg.Limits.MaxUploads),
	}, nil
}

// Close closes the store of a Server whose Serve was not called.
func (s *Server) Close() error { return s.store.close() }

// Serve accepts clients on ln until ctx ends, then drops them, finishes accepted
// events, closes the store and returns nil. It must be called only once.
func (s *Server) Serve(ctx context.Context, ln net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	pipeline := s.startPipeline(ctx)
	hs := &http.Server{
		Handler:           s.handler(ctx),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    16 << 10,
		ConnState:         s.conns.state,
	}
	failed := make(chan error, 1)
	go func() { failed <- hs.Serve(ln) }()

	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("serve relay: %w", err)
	}

	cancel()
	grace, stop := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer stop()

	if hs.Shutdown(grace) != nil {
		_ = hs.Close() // unfinished transfers are cut off
	}
	s.drain()
	s.unverified.close()
	pipeline.Wait()
	return errors.Join(err, s.store.close())
}

// startPipeline starts the verify workers, the ingest and the spreading goroutine
// and the purge. They end when unverified is closed and ctx has ended.
func (s *Server) startPipeline(ctx context.Context) *sync.WaitGroup {
	var workers, all sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(s.verifyLoop)
	}
	all.Go(func() {
		workers.Wait()
		s.verified.close()
	})
	all.Go(func() {
		s.ingestLoop() // until the workers have ended, which also pass on events
		close(s.spread)
	})
	all.Go(s.spreadLoop)
	all.Go(func() { s.purgeLoop(ctx) })
	return &all
}

// handler routes by method and path: both the relay and blobs are at the root ("all
// endpoints MUST be served from the root path", BUD-01).
func (s *Server) handler(ctx context.Context) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			s.serveWebsocket(ctx, w, r)
			return
		}
		s.serveInfo(w, r)
	})
	mux.HandleFunc("PUT /upload", s.serveUpload)
	mux.HandleFunc("HEAD /upload", s.serveAsk)
	mux.HandleFunc("PUT /rooms/{room}", s.serveOpenRoom)
	mux.HandleFunc("DELETE /rooms/{room}", s.serveCloseRoom)
	mux.HandleFunc("GET /{blob}", s.serveBlob) // and HEAD
	mux.HandleFunc("DELETE /{blob}", s.serveDelete)
	return s.tracked(cors(timed(mux)))
}

// timed sets the deadline of each answer, because a kept connection still has that
// of the previous one. An upload may take half of it; websockets have none.
func timed(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(2 * transferTimeout))
		next.ServeHTTP(w, r)
	})
}

// tracked makes drain wait for hijacked connections too, which http.Server does not
// track.
func (s *Server) tracked(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		refused := s.closing
		if !refused {
			s.requests.Add(1)
		}
		s.mu.Unlock()
		if refused {
			http.Error(w, "shutting down", http.StatusServiceUnavailable)
			return
		}
		defer s.requests.Done()

		next.ServeHTTP(w, r)
	})
}

// drain waits until no request runs and prevents new ones.
func (s *Server) drain() {
	s.mu.Lock()
	s.closing = true
	s.mu.Unlock()
	s.requests.Wait()
}

// cors lets web pages of any origin use the relay, which has only public data and
// no cookies (required by NIP-11 and BUD-01).
func cors(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Headers", "Authorization, *")
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, PUT, DELETE, OPTIONS")
		h.Set("Access-Control-Expose-Headers", "*")
		h.Set("X-Content-Type-Options", "nosniff")
		if r.Method == http.MethodOptions {
			h.Set("Access-Control-Max-Age", "86400")
			w.WriteHeader(http.StatusNoContent)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (s *Server) serveWebsocket(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	ctx, evict := context.WithCancelCause(ctx)
	defer evict(nil)

	address := s.cfg.clientOf(r)
	if r.Header.Get("X-Forwarded-For") != "" && isLoopback(address) {
		s.unnamedProxy.Do(func() {
			s.cfg.Log.Warn("a proxy on this machine is not named in relay.proxies: its clients count as one address, which has no bounds", "proxy", address)
		})
	}

	slot := s.slots.enter(address, evict)
	if slot == nil {
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
		return
	}
	defer s.slots.leave(slot)

	up := &upgrade{ResponseWriter: w}
	ws, err := websocket.Accept(up, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // any origin, see cors
	if err != nil {
		return // Accept has answered
	}
	newClient(s, ws, up.wire, address, localAddress(r)).serve(ctx)
}
