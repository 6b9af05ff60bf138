package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

func sha(data string) string {
	sum := sha256.Sum256([]byte(data))
	return hex.EncodeToString(sum[:])
}

// authFor is a good authorization, changed by change.
func authFor(t testing.TB, secret, verb, hash string, change func(*nostr.Event)) string {
	t.Helper()
	ev := nostr.Event{Kind: 24242, CreatedAt: ago(10), Content: verb, Tags: nostr.Tags{
		{"t", verb}, {"expiration", fmt.Sprint(ago(-600))}, {"x", hash},
	}}
	if change != nil {
		change(&ev)
	}
	ev = sign(t, secret, ev)
	return "Nostr " + base64.StdEncoding.EncodeToString(nip01.Marshal(&ev))
}

func (r *running) request(t *testing.T, method, path, auth string, body io.Reader) (*http.Response, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.addr+path, body)
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	req.Header.Set("Content-Type", "text/html; charset=utf-8")
	return do(t, req)
}

func (r *running) upload(t *testing.T, secret, data string) (*http.Response, string) {
	t.Helper()
	return r.request(t, http.MethodPut, "/upload", authFor(t, secret, "upload", sha(data), nil), strings.NewReader(data))
}

func TestBlobRoundTrip(t *testing.T) {
	dir := t.TempDir()
	r := start(t, Config{Dir: dir})
	data := strings.Repeat("blob ", 1000)
	resp, body := r.upload(t, aliceSecret, data)
	var d descriptor
	if err := json.Unmarshal([]byte(body), &d); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("%d %s %v", resp.StatusCode, body, err)
	}
	if d.SHA256 != sha(data) || d.Size != int64(len(data)) || d.URL != "http://"+r.addr+"/"+d.SHA256+".html" || d.Type != "text/html; charset=utf-8" {
		t.Errorf("descriptor %+v", d)
	}
	if resp, again := r.upload(t, aliceSecret, data); again != body || resp.StatusCode != http.StatusOK {
		t.Errorf("repeated upload: %d %s, want %s", resp.StatusCode, again, body)
	}
	r.stop()
	r = start(t, Config{Dir: dir}) // blobs outlive the process
	for _, path := range []string{"/" + d.SHA256, "/" + d.SHA256 + ".html"} {
		resp, got := r.request(t, http.MethodGet, path, "", nil)
		if resp.StatusCode != http.StatusOK || got != data {
			t.Errorf("%s: %d, %d bytes", path, resp.StatusCode, len(got))
		}
		for name, want := range map[string]string{
			"Content-Type": d.Type, "X-Content-Type-Options": "nosniff", "Access-Control-Allow-Origin": "*",
			"Content-Security-Policy": "default-src 'none'; sandbox",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
	resp, got := r.request(t, http.MethodHead, "/"+d.SHA256, "", nil)
	if resp.StatusCode != http.StatusOK || got != "" || resp.ContentLength != int64(len(data)) {
		t.Errorf("HEAD: %d, %d bytes", resp.StatusCode, resp.ContentLength)
	}
	for _, path := range []string{"/" + sha("other"), "/" + strings.ToUpper(d.SHA256), "/" + d.SHA256 + ".", "/..%2frelay.db", "/x"} {
		if resp, _ := r.request(t, http.MethodGet, path, "", nil); resp.StatusCode != http.StatusNotFound {
			t.Errorf("GET %s: %d", path, resp.StatusCode)
		}
	}
}

func TestUploadUnauthorized(t *testing.T) {
	r := start(t, Config{Uploaders: []string{publicKey(t, aliceSecret)}})
	const data = "the blob"
	tag := func(i int, tag nostr.Tag) func(*nostr.Event) {
		return func(ev *nostr.Event) { ev.Tags[i] = tag }
	}
	unsigned := func() string {
		ev := sign(t, aliceSecret, nostr.Event{Kind: 24242, CreatedAt: ago(10), Tags: nostr.Tags{
			{"t", "upload"}, {"expiration", fmt.Sprint(ago(-600))}, {"x", sha(data)},
		}})
		ev.PubKey = publicKey(t, bobSecret)
		return "Nostr " + base64.StdEncoding.EncodeToString(nip01.Marshal(&ev))
	}
	auth := func(change func(*nostr.Event)) string { return authFor(t, aliceSecret, "upload", sha(data), change) }
	for name, c := range map[string]struct {
		auth   string
		status int
	}{
		"good":            {auth(nil), 200},
		"base64url":       {strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(auth(nil)), 200},
		"none":            {"", 401},
		"other scheme":    {"Bearer x", 401},
		"not base64":      {"Nostr ???", 401},
		"not an event":    {"Nostr e30=", 401},
		"wrong kind":      {auth(func(ev *nostr.Event) { ev.Kind = 1 }), 401},
		"from the future": {auth(func(ev *nostr.Event) { ev.CreatedAt = ago(-3600) }), 401},
		"expired":         {auth(tag(1, nostr.Tag{"expiration", fmt.Sprint(ago(1))})), 401},
		"no expiration":   {auth(tag(1, nostr.Tag{"z", "1"})), 401},
		"other verb":      {auth(tag(0, nostr.Tag{"t", "delete"})), 401},
		"forged":          {unsigned(), 401},
		"other blob":      {auth(tag(2, nostr.Tag{"x", sha("another")})), 403},
		"no blob":         {auth(tag(2, nostr.Tag{"z", sha(data)})), 403},
		"other server":    {auth(func(ev *nostr.Event) { ev.Tags = append(ev.Tags, nostr.Tag{"server", "blobs.example.com"}) }), 401},
		"this server":     {auth(func(ev *nostr.Event) { ev.Tags = append(ev.Tags, nostr.Tag{"server", "127.0.0.1"}) }), 200},
		"stranger":        {authFor(t, bobSecret, "upload", sha(data), nil), 403},
	} {
		t.Run(name, func(t *testing.T) {
			resp, body := r.request(t, http.MethodPut, "/upload", c.auth, strings.NewReader(data))
			if resp.StatusCode == http.StatusCreated && c.status == http.StatusOK {
				c.status = http.StatusCreated // the first of those that are taken
			}
			if resp.StatusCode != c.status {
				t.Errorf("%d %s, want %d", resp.StatusCode, body, c.status)
			}
			if c.status >= 400 && (resp.Header.Get("X-Reason") == "" || !strings.Contains(body, `"message"`)) {
				t.Errorf("no reason: %v %s", resp.Header, body)
			}
		})
	}
	assertNoTempFiles(t, r)
}

func TestUploadLimits(t *testing.T) {
	r := start(t, Config{ // nobody else's blobs make room
		Owners: []string{publicKey(t, aliceSecret)},
		Limits: Limits{MaxBlobBytes: 1000, BlobTotalBytes: 2500 + 3*ownedCost},
	})
	blob := func(c string, n int) string { return strings.Repeat(c, n) }
	chunked := func(data string) *http.Response { // without an announced length
		auth := authFor(t, aliceSecret, "upload", sha(data), nil)
		resp, _ := r.request(t, http.MethodPut, "/upload", auth, io.MultiReader(strings.NewReader(data)))
		return resp
	}
	if resp, _ := r.upload(t, aliceSecret, blob("a", 1001)); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("oversize: %d", resp.StatusCode)
	}
	if resp := chunked(blob("a", 1001)); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("oversize, chunked: %d", resp.StatusCode)
	}
	for _, c := range []string{"a", "b"} {
		if resp, body := r.upload(t, aliceSecret, blob(c, 1000)); resp.StatusCode != http.StatusCreated {
			t.Fatalf("at the limit: %d %s", resp.StatusCode, body)
		}
	}
	if resp, _ := r.upload(t, aliceSecret, blob("c", 501)); resp.StatusCode != http.StatusInsufficientStorage {
		t.Errorf("above the total: %d", resp.StatusCode)
	}
	if resp, body := r.upload(t, aliceSecret, blob("c", 500)); resp.StatusCode != http.StatusCreated {
		t.Errorf("at the total: %d %s", resp.StatusCode, body)
	}
	// A deletion makes room.
	hash := sha(blob("a", 1000))
	if resp, _ := r.request(t, http.MethodDelete, "/"+hash, authFor(t, aliceSecret, "delete", hash, nil), nil); resp.StatusCode != http.StatusNoContent {
		t.Errorf("delete: %d", resp.StatusCode)
	}
	if resp := chunked(blob("d", 1000)); resp.StatusCode != http.StatusCreated {
		t.Errorf("after a deletion: %d", resp.StatusCode)
	}
	assertNoTempFiles(t, r)
}

// TestServerTag: an authorization that names servers is good at those alone. Its
// holder may be another server, to which its author has uploaded the same blob.
func TestServerTag(t *testing.T) {
	const data = "for one server"
	named := func(verb string, servers ...string) string {
		return authFor(t, aliceSecret, verb, sha(data), func(ev *nostr.Event) {
			for _, s := range servers {
				ev.Tags = append(ev.Tags, nostr.Tag{"server", s})
			}
		})
	}
	for _, public := range []string{"", "https://relay.example.com:8443"} {
		r := start(t, Config{PublicURL: public})
		for _, c := range []struct {
			servers []string
			here    bool
		}{
			{nil, true},
			{[]string{"127.0.0.1"}, true},
			{[]string{"localhost"}, true},
			{[]string{"http://127.0.0.1:1/"}, true},
			{[]string{"elsewhere.example.com", "127.0.0.1"}, true},
			{[]string{"Relay.Example.com"}, public != ""},
			{[]string{"elsewhere.example.com"}, false},
			{[]string{"example.com"}, false},
			{[]string{""}, false},
		} {
			for verb, method := range map[string]string{"upload": http.MethodPut, "delete": http.MethodDelete} {
				path, want := "/upload", http.StatusCreated
				if verb == "delete" {
					path, want = "/"+sha(data), http.StatusNoContent
					r.upload(t, aliceSecret, data)
				}
				if !c.here {
					want = http.StatusUnauthorized
				}
				req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.addr+path, strings.NewReader(data))
				if err != nil {
					t.Fatal(err)
				}
				req.Header.Set("Authorization", named(verb, c.servers...))
				req.Host = "elsewhere.example.com" // whoever asks chooses it
				resp, body := do(t, req)
				if resp.StatusCode != want && (resp.StatusCode != http.StatusOK || want != http.StatusCreated) {
					t.Errorf("%s with %q, public URL %q: %d %s, want %d", verb, c.servers, public, resp.StatusCode, body, want)
				}
			}
		}
	}
}

// TestAnnouncedHash: what X-SHA-256 says is held against the authorization before
// anything is read, and against what was read.
func TestAnnouncedHash(t *testing.T) {
	r := start(t, Config{})
	put := func(data, header string, authorized ...string) *http.Response {
		t.Helper()
		auth := authFor(t, aliceSecret, "upload", sha(data), func(ev *nostr.Event) {
			for _, hash := range authorized {
				ev.Tags = append(ev.Tags, nostr.Tag{"x", hash})
			}
		})
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+r.addr+"/upload", strings.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", auth)
		req.Header.Set("X-SHA-256", header)
		resp, _ := do(t, req)
		return resp
	}
	other := sha("other")
	for name, c := range map[string]struct{ got, want int }{
		"the blob's":               {put("a", sha("a")).StatusCode, http.StatusCreated},
		"in capitals":              {put("b", strings.ToUpper(sha("b"))).StatusCode, http.StatusCreated},
		"another":                  {put("c", other).StatusCode, http.StatusForbidden},
		"another, also authorized": {put("d", other, other).StatusCode, http.StatusConflict},
		"no hash":                  {put("e", "abc").StatusCode, http.StatusBadRequest},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", name, c.got, c.want)
		}
	}
	for data, want := range map[string]int{"a": 200, "d": 404, other: 404} {
		if resp, _ := r.request(t, http.MethodGet, "/"+sha(data), "", nil); resp.StatusCode != want {
			t.Errorf("%.10s: %d, want %d", data, resp.StatusCode, want)
		}
	}
}

func TestExtensions(t *testing.T) {
	for media, want := range map[string]string{
		"text/html; charset=utf-8": ".html", "application/json": ".json", "application/octet-stream": ".bin", "x/unknown": ".bin", "": ".bin",
	} {
		if got := extensionOf(media); got != want {
			t.Errorf("%q: %s, want %s", media, got, want)
		}
	}
}

func TestDeleteBlob(t *testing.T) {
	r := start(t, Config{})
	const data = "shared"
	hash := sha(data)
	r.upload(t, aliceSecret, data)
	del := func(secret, named string, want int) {
		t.Helper()
		auth := authFor(t, secret, "delete", named, nil)
		if resp, body := r.request(t, http.MethodDelete, "/"+hash, auth, nil); resp.StatusCode != want {
			t.Errorf("DELETE: %d %s, want %d", resp.StatusCode, body, want)
		}
	}
	del(bobSecret, hash, http.StatusForbidden)
	del(aliceSecret, sha("other"), http.StatusForbidden)
	r.upload(t, bobSecret, data)
	del(aliceSecret, hash, http.StatusNoContent)
	if resp, _ := r.request(t, http.MethodGet, "/"+hash, "", nil); resp.StatusCode != http.StatusOK {
		t.Error("the blob went with the first of its owners")
	}
	del(aliceSecret, hash, http.StatusForbidden)
	del(bobSecret, hash, http.StatusNoContent)
	if resp, _ := r.request(t, http.MethodGet, "/"+hash, "", nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("after the last owner: %d", resp.StatusCode)
	}
	if _, err := os.Stat(r.srv.blobs.path(hash)); !os.IsNotExist(err) {
		t.Errorf("the file is still there: %v", err)
	}
	del(bobSecret, hash, http.StatusNotFound)
}

func TestPreflight(t *testing.T) {
	r := start(t, Config{})
	resp, _ := r.request(t, http.MethodOptions, "/upload", "", nil)
	if resp.StatusCode != http.StatusNoContent || !strings.Contains(resp.Header.Get("Access-Control-Allow-Methods"), "PUT") ||
		!strings.Contains(resp.Header.Get("Access-Control-Allow-Headers"), "Authorization") {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
}

func TestUnfinishedUploadIsRemoved(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "blobs", "tmp", "upload-1")
	if err := os.MkdirAll(filepath.Dir(left), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(left, bytes.Repeat([]byte("x"), 10), 0o600); err != nil {
		t.Fatal(err)
	}
	assertNoTempFiles(t, start(t, Config{Dir: dir}))
}

func assertNoTempFiles(t *testing.T, r *running) {
	t.Helper()
	r.stop()
	left, err := os.ReadDir(r.srv.blobs.temp())
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("temporary files are left: %v", left)
	}
}
