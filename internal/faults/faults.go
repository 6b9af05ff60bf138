// Package faults stands before an HTTP server in tests and fails as it is told.
package faults

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path"
	"sync"
	"testing"
	"time"
)

// Kind is how a failure shows itself.
type Kind int

// The kinds of failure.
const (
	// Refuse answers 503 with a JSON object; the server hears nothing.
	Refuse Kind = iota + 1
	// DropBefore cuts the connection; the server hears nothing.
	DropBefore
	// DropAfter has the server do what was asked and cuts the connection in place
	// of the answer: the reply is lost.
	DropAfter
	// Delay waits before the server hears of it.
	Delay
)

// Fault is a failure of the next Count requests (1 if Count is 0) whose path ends
// in Method.
type Fault struct {
	Method string
	Kind   Kind
	Count  int
	Delay  time.Duration // for Delay
}

// Proxy passes requests on to a server. It is safe for concurrent use.
type Proxy struct {
	URL string

	next *httputil.ReverseProxy

	mu     sync.Mutex
	faults map[string][]Fault // by method, in the order in which they happen
}

// Start runs a proxy of the server at address until the test ends.
func Start(tb testing.TB, address string) *Proxy {
	tb.Helper()
	to, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	transport := &http.Transport{}
	p := &Proxy{faults: map[string][]Fault{}, next: &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: transport,
		// A server that is away looks as it would without a proxy.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}}
	s := httptest.NewServer(p)
	tb.Cleanup(func() {
		s.CloseClientConnections() // long polls do not hold up the end
		s.Close()
		transport.CloseIdleConnections()
	})
	p.URL = s.URL
	return p
}

// Script adds a fault.
func (p *Proxy) Script(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f.Count = max(f.Count, 1)
	p.faults[f.Method] = append(p.faults[f.Method], f)
}

// take takes one failure of the method off the script; its Kind 0 is none.
func (p *Proxy) take(method string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	list := p.faults[method]
	if len(list) == 0 {
		return Fault{}
	}
	f := list[0]
	if list[0].Count--; list[0].Count == 0 {
		p.faults[method] = list[1:]
	}
	return f
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch f := p.take(path.Base(r.URL.Path)); f.Kind {
	case Refuse:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, `{"code":"scripted","message":"a scripted failure"}`)
		return
	case DropBefore:
		panic(http.ErrAbortHandler)
	case DropAfter:
		p.next.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case Delay:
		select {
		case <-time.After(f.Delay):
		case <-r.Context().Done():
			return
		}
	}

	p.next.ServeHTTP(w, r)
}
