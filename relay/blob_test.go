package relay

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/relay/nip01"
)

// localBlobs is a client for servers on this machine, of which some are its owner's.
func localBlobs(t testing.TB, own ...string) *BlobClient {
	c := NewBlobClient(BlobConfig{Servers: own, AllowLoopback: true})
	t.Cleanup(c.Close)
	return c
}

func TestBlobRoundTrip(t *testing.T) {
	r := startRelay(t)
	c := localBlobs(t)
	data := []byte(strings.Repeat("blob", 1000))
	d, err := c.Upload(t.Context(), "http://"+r.addr, data, "text/plain", testKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if d.Digest != hashing.Bytes(data) || d.Size != int64(len(data)) || d.Type != "text/plain" || d.Uploaded.IsZero() {
		t.Errorf("descriptor %+v", d)
	}
	got, err := c.Download(t.Context(), d.URL, d.Digest, int64(len(data)))
	if err != nil || string(got) != string(data) {
		t.Errorf("download: %d bytes, %v", len(got), err)
	}
	if _, err := c.Download(t.Context(), d.URL, d.Digest, int64(len(data))-1); !errors.Is(err, ErrBlobTooLarge) {
		t.Errorf("above the limit: %v", err)
	}
	if _, err := c.Download(t.Context(), d.URL, hashing.Bytes(nil), 1<<20); !errors.Is(err, ErrBlobMismatch) {
		t.Errorf("other digest: %v", err)
	}
	var refused *BlobError
	missing := "http://" + r.addr + "/" + hashing.Bytes([]byte("x")).Hex()
	if _, err := c.Download(t.Context(), missing, d.Digest, 10); !errors.As(err, &refused) || refused.Status != 404 || refused.Reason == "" {
		t.Errorf("missing: %v", err)
	}
}

// TestAuthorizationNamesTheServer: who gets it cannot use it elsewhere.
func TestAuthorizationNamesTheServer(t *testing.T) {
	for server, want := range map[string]string{
		"https://Blobs.Example.com:8443/": "blobs.example.com", "http://127.0.0.1:7447": "127.0.0.1", "http://[::1]:7447": "::1",
	} {
		header, err := authorization(t.Context(), testKey(t), server, "Upload", nil, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		doc, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(header, "Nostr "))
		if err != nil {
			t.Fatal(err)
		}
		ev, err := nip01.ParseEvent(doc, nip01.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if tag := ev.Tags.Find("server"); tag == nil || tag[1] != want {
			t.Errorf("%s: tag %q, want %s", server, tag, want)
		}
	}
	if _, err := authorization(t.Context(), testKey(t), "blobs", "Upload", nil, time.Now()); err == nil {
		t.Error("an address without a name is signed for")
	}
}

// TestHostileBlobServer gives every wrong answer that a client must survive.
func TestHostileBlobServer(t *testing.T) {
	data := []byte("data")
	digest := hashing.Bytes(data)
	asked := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked = true
		_, _ = w.Write(data)
	}))
	t.Cleanup(elsewhere.Close)
	mux := http.NewServeMux()
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL, http.StatusFound)
	})
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				return
			}
		}
	})
	mux.HandleFunc("/cut", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "4")
		_, _ = w.Write(data[:2])
	})
	mux.HandleFunc("/gzip", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write([]byte("\x1f\x8b\x08\x00"))
	})
	mux.HandleFunc("/reason", func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		fmt.Fprint(w, `{"message":"no\u001b[2J"}`)
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	c := localBlobs(t)
	for path, want := range map[string]string{
		"/redirect": "answers 302",
		"/endless":  ErrBlobTooLarge.Error(),
		"/cut":      "unexpected EOF",
		"/gzip":     ErrBlobMismatch.Error(),
		"/reason":   "answers 418: no [2J",
	} {
		if _, err := c.Download(t.Context(), srv.URL+path, digest, 1<<20); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	if asked {
		t.Error("a redirect was followed")
	}
}

func TestUploadChecksTheAnswer(t *testing.T) {
	data := []byte("data")
	hash, other := hashing.Bytes(data).Hex(), hashing.Bytes(nil).Hex()
	good := func(hash, size, url string) string {
		return fmt.Sprintf(`{"url":%q,"sha256":%q,"size":%s,"type":"x","uploaded":1,"more":[]}`, url, hash, size)
	}
	for name, c := range map[string]struct {
		answer string
		ok     bool
	}{
		"good":          {good(hash, "4", "https://cdn/"+hash+".bin"), true},
		"other hash":    {good(other, "4", "https://cdn/"+other), false},
		"other size":    {good(hash, "5", "https://cdn/"+hash), false},
		"other URL":     {good(hash, "4", "https://cdn/"+other), false},
		"script URL":    {good(hash, "4", "javascript:"+hash), false},
		"no JSON":       {"ok", false},
		"twice a field": {`{"size":4,"size":4}`, false},
		"endless":       {strings.Repeat(" ", 1<<20), false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprint(w, c.answer)
			}))
			defer srv.Close()
			_, err := localBlobs(t).Upload(t.Context(), srv.URL+"/", data, "x/y", testKey(t))
			if (err == nil) != c.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}

// TestUploadWaitsForABusyServer: a server that is full for a moment costs the
// moment, not a failed upload; a refusal that means something is final.
func TestUploadWaitsForABusyServer(t *testing.T) {
	data := []byte("data")
	hash := hashing.Bytes(data).Hex()
	for name, c := range map[string]struct {
		answers []int // one a request; then the blob is taken
		asked   int64
		ok      bool
	}{
		"full twice":    {[]int{503, 503}, 3, true},
		"too many":      {[]int{429}, 2, true},
		"disk full":     {[]int{507}, 1, false},
		"not permitted": {[]int{403}, 1, false},
		"broken":        {[]int{500}, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil || string(body) != string(data) {
					t.Errorf("it brings %q, %v", body, err)
				}
				if n := asked.Add(1); int(n) <= len(c.answers) {
					w.WriteHeader(c.answers[n-1])
					return
				}
				fmt.Fprintf(w, `{"url":"https://cdn/%s","sha256":"%s","size":4,"type":"x","uploaded":1}`, hash, hash)
			}))
			defer srv.Close()
			_, err := localBlobs(t).Upload(t.Context(), srv.URL, data, "x/y", testKey(t))
			if (err == nil) != c.ok || asked.Load() != c.asked {
				t.Errorf("asked %d times, error %v; want %d times, success %t", asked.Load(), err, c.asked, c.ok)
			}
		})
	}
}

// TestUploadToABusyServerEnds: with its context, and with the refusal to show.
func TestUploadToABusyServerEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		w.(http.Flusher).Flush()
		cancel()
	}))
	defer srv.Close()
	_, err := localBlobs(t).Upload(ctx, srv.URL, []byte("data"), "x/y", testKey(t))
	var refused *BlobError
	if !errors.Is(err, context.Canceled) && !(errors.As(err, &refused) && refused.Status == http.StatusServiceUnavailable) {
		t.Errorf("error %v", err)
	}
}

// TestConnectionsAreKept: blobs one after the other go over one connection; one
// that the server closes on a request costs nothing but a new one.
func TestConnectionsAreKept(t *testing.T) {
	r := startRelay(t)
	key := testKey(t)
	forward := &httputil.ReverseProxy{
		Rewrite:   func(p *httputil.ProxyRequest) { p.Out.URL.Scheme, p.Out.URL.Host = "http", r.addr },
		Transport: &http.Transport{DisableKeepAlives: true},
	}
	var from []string // every request's address
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if from = append(from, req.RemoteAddr); len(from) != 5 {
			forward.ServeHTTP(w, req)
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}))
	t.Cleanup(srv.Close)
	c := localBlobs(t, srv.URL)
	for i := range 4 {
		data := fmt.Append(nil, "blob ", i)
		d, err := c.Upload(t.Context(), srv.URL, data, "text/plain", key)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Download(t.Context(), srv.URL+"/"+d.Digest.Hex(), d.Digest, 1<<10); err != nil {
			t.Fatal(err)
		}
	}
	if got := slices.Compact(slices.Clone(from)); len(got) != 2 || len(from) != 9 {
		t.Errorf("connections of the requests, want five of one and four of another: %v", from)
	}
}

func TestGuardAddresses(t *testing.T) {
	strict, local := guard{}, guard{loopback: true}
	for _, ip := range []string{
		"127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "0.0.0.0", "::", "10.0.0.1", "172.16.0.1", "192.168.1.1",
		"169.254.169.254", "::ffff:169.254.169.254", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "100.64.0.1",
		"192.0.0.192", "198.18.0.1", "224.0.0.1", "255.255.255.255", "ff02::1", "64:ff9b::7f00:1", "2002:7f00:1::", "::127.0.0.1",
		"2001:db8::1", "fec0::1",
	} {
		if err := strict.address("https", netip.MustParseAddr(ip)); !errors.Is(err, ErrBlockedAddress) {
			t.Errorf("%s is allowed", ip)
		}
	}
	for _, ip := range []string{"1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8"} {
		if err := strict.address("https", netip.MustParseAddr(ip)); err != nil {
			t.Errorf("%s: %v", ip, err)
		}
		if err := local.address("http", netip.MustParseAddr(ip)); !errors.Is(err, ErrBlockedAddress) {
			t.Errorf("http to %s is allowed", ip)
		}
	}
	for _, ip := range []string{"127.0.0.1", "::1"} {
		if err := local.address("http", netip.MustParseAddr(ip)); err != nil {
			t.Errorf("allowed loopback %s: %v", ip, err)
		}
	}
	if err := local.address("http", netip.MustParseAddr("10.0.0.1")); !errors.Is(err, ErrBlockedAddress) {
		t.Error("loopback opens private networks")
	}
}

func TestGuardURLs(t *testing.T) {
	for raw, want := range map[string]bool{
		"https://host/x":           true,
		"https://1.1.1.1/x":        true,
		"http://host/x":            false,
		"https://127.0.0.1/x":      false,
		"https://[::1]/x":          false,
		"https://user:pw@host/x":   false,
		"ftp://host/x":             false,
		"file:///etc/passwd":       false,
		"https:///x":               false,
		"https:opaque":             false,
		"//host/x":                 false,
		"https://host\x00/":        false,
		"http://169.254.169.254/":  false,
		"https://[fe80::1%25lo]/x": false,
	} {
		if _, err := (guard{}).url(raw); (err == nil) != want {
			t.Errorf("%q: %v", raw, err)
		}
	}
}

// TestStrangersServers: what a stranger names is fetched from no port of a machine's
// services. The owner's own servers may be anywhere.
func TestStrangersServers(t *testing.T) {
	c := NewBlobClient(BlobConfig{Servers: []string{"https://Blobs.example.com:25/"}, AllowLoopback: true, AllowHTTP: true})
	for _, url := range []string{"https://1.1.1.1:25/x", "http://1.1.1.1:80/x", "https://[2606:4700::1111]:6000/x"} {
		if _, err := c.Download(t.Context(), url, hashing.Digest{}, 10); !errors.Is(err, ErrBlockedAddress) {
			t.Errorf("%s: %v", url, err)
		}
	}
	for url, own := range map[string]bool{
		"https://blobs.example.com:25/x": true, "https://blobs.example.com/x": false, "http://blobs.example.com:25/x": false, "https://other.example.com:25/x": false,
	} {
		if g := c.transportFor(url).guard; g.notOwn == own || g.relayPorts == own {
			t.Errorf("%s: the guard of a stranger's URL: %v", url, g)
		}
	}
}

// TestGuardAtConnection uses a name, which only the check of the address that
// it resolves to can refuse.
func TestGuardAtConnection(t *testing.T) {
	asked := false
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked = true }))
	t.Cleanup(srv.Close)
	url := strings.Replace(srv.URL, "127.0.0.1", "localhost", 1)
	for _, c := range []*BlobClient{NewBlobClient(BlobConfig{}), NewBlobClient(BlobConfig{AllowHTTP: true})} {
		if _, err := c.Download(t.Context(), url, hashing.Digest{}, 10); !errors.Is(err, ErrBlockedAddress) {
			t.Errorf("error %v", err)
		}
	}
	if asked {
		t.Error("the server was asked")
	}
}
