// Package faults is an HTTP proxy for tests that simulates scripted failures.
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

// Kind is a kind of failure.
type Kind int

// The kinds of failure.
const (
	// Refuse answers 503 with a JSON object, without asking the server.
	Refuse Kind = iota + 1
	// DropBefore drops the connection without asking the server.
	DropBefore
	// DropAfter lets the server handle the request and drops the connection instead
	// of answering.
	DropAfter
	// Delay waits before asking the server.
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

// Proxy forwards requests to a server. It is safe for concurrent use.
type Proxy struct {
	URL string

	next *httputil.ReverseProxy

	mu     sync.Mutex
	faults map[string][]Fault // by method, in order
}

// Start runs a proxy for the server at address until the test ends.
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
		// An unreachable server looks as it would without a proxy.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
		ErrorLog:     log.New(io.Discard, "", 0),
	}}
	s := httptest.NewServer(p)
	tb.Cleanup(func() {
		s.CloseClientConnections() // long polls must not delay the end
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

// take removes and returns the next failure of the method; Kind is 0 if there is
// none.
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
