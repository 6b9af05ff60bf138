package server

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/sqlite"
)

// provided is a relay whose operator's provider is alice. Nobody else may upload.
func provided(t *testing.T, limits Limits) *running {
	t.Helper()
	return start(t, Config{Dir: t.TempDir(), Owners: []string{publicKey(t, aliceSecret)}, Uploaders: []string{}, Limits: limits})
}

// requestID is the id of a request.
func requestID(n int) string { return fmt.Sprintf("%064x", n) }

// openRoom asks for a room for uploader, as secret's key.
func (r *running) openRoom(t *testing.T, secret, id, uploader string, bytes, blobs int) (*http.Response, string) {
	t.Helper()
	return r.request(t, http.MethodPut, "/rooms/"+id, roomAuth(t, secret, "room", id, nostr.Tags{
		{"p", uploader}, {"bytes", fmt.Sprint(bytes)}, {"blobs", fmt.Sprint(blobs)},
	}), nil)
}

func (r *running) closeRoom(t *testing.T, secret, id string) (*http.Response, string) {
	t.Helper()
	return r.request(t, http.MethodDelete, "/rooms/"+id, roomAuth(t, secret, "close", id, nil), nil)
}

func roomAuth(t *testing.T, secret, verb, id string, more nostr.Tags) string {
	t.Helper()
	return authFor(t, secret, verb, id, func(ev *nostr.Event) { ev.Tags = append(append(ev.Tags, nostr.Tag{"e", id}), more...) })
}

// uploadInto puts a blob into the room of a request.
func (r *running) uploadInto(t *testing.T, secret, id, data string) (*http.Response, string) {
	t.Helper()
	return r.announcedInto(t, secret, id, sha(data), strings.NewReader(data))
}

func (r *running) announcedInto(t *testing.T, secret, id, hash string, body io.Reader) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+r.addr+"/upload", body)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", intoAuth(t, secret, id, hash))
	req.Header.Set("X-SHA-256", hash)
	return do(t, req)
}

// intoAuth is the authorization of an upload into a room.
func intoAuth(t *testing.T, secret, id, hash string) string {
	t.Helper()
	return authFor(t, secret, "upload", hash, func(ev *nostr.Event) { ev.Tags = append(ev.Tags, nostr.Tag{"e", id}) })
}

func status(t *testing.T, what string, want int) func(*http.Response, string) {
	t.Helper()
	return func(resp *http.Response, body string) {
		t.Helper()
		if resp.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", what, resp.StatusCode, body, want)
		}
		if want >= 400 && resp.Header.Get("X-Reason") == "" {
			t.Errorf("%s: no reason", what)
		}
	}
}

// served reports whether a blob is there, whole.
func (r *running) served(t *testing.T, data string) bool {
	t.Helper()
	resp, got := r.request(t, http.MethodGet, "/"+sha(data), "", nil)
	return resp.StatusCode == http.StatusOK && got == data
}

// TestRoomOfARequest: a stranger stores what a provider of this server opened a room
// for, and nothing else. What does not fit its room is refused and changes nothing.
func TestRoomOfARequest(t *testing.T) {
	r := provided(t, Limits{MaxBlobBytes: 1 << 20})
	bob, id := publicKey(t, bobSecret), requestID(1)
	small, large, left := "small", strings.Repeat("large ", smallBlob), strings.Repeat("z", 100)
	size := len(small) + len(large) + len(left)

	status(t, "no room", 404)(r.uploadInto(t, bobSecret, id, small))
	status(t, "no request", 403)(r.upload(t, bobSecret, small))
	status(t, "opened by a stranger", 403)(r.openRoom(t, bobSecret, id, bob, size, 3))
	status(t, "opened", 201)(r.openRoom(t, aliceSecret, id, bob, size, 3))
	status(t, "opened again", 200)(r.openRoom(t, aliceSecret, id, bob, size, 3))
	status(t, "opened with other bounds", 409)(r.openRoom(t, aliceSecret, id, bob, size+1, 3))
	status(t, "opened for another", 409)(r.openRoom(t, aliceSecret, id, publicKey(t, carolSecret), size, 3))

	status(t, "another key", 403)(r.uploadInto(t, carolSecret, id, small))
	status(t, "another request", 404)(r.uploadInto(t, bobSecret, requestID(2), small))
	status(t, "another blob", 409)(r.announcedInto(t, bobSecret, id, sha("other"), strings.NewReader(small)))
	status(t, "no length", 411)(r.announcedInto(t, bobSecret, id, sha(small), io.MultiReader(strings.NewReader(small))))
	status(t, "no hash", 411)(r.request(t, http.MethodPut, "/upload", intoAuth(t, bobSecret, id, sha(small)), strings.NewReader(small)))
	status(t, "no request id", 401)(r.uploadInto(t, bobSecret, "12", small))
	status(t, "too large for the room", 413)(r.uploadInto(t, bobSecret, id, strings.Repeat("x", size+1)))
	status(t, "too large for a blob", 413)(r.uploadInto(t, bobSecret, id, strings.Repeat("x", 1<<20+1)))

	for _, doc := range []string{small, large} {
		status(t, "into the room", 201)(r.uploadInto(t, bobSecret, id, doc))
		status(t, "again", 200)(r.announcedInto(t, bobSecret, id, sha(doc), strings.NewReader(doc)))
		if !r.served(t, doc) {
			t.Errorf("%.10q is not served", doc)
		}
	}
	status(t, "a byte too much", 413)(r.uploadInto(t, bobSecret, id, left+"z"))
	status(t, "the last blob", 201)(r.uploadInto(t, bobSecret, id, left))
	status(t, "one too many", 413)(r.uploadInto(t, bobSecret, id, ""))
	if got, want := r.srv.blobs.room.used(), int64(size+3*ownedCost); got != want {
		t.Errorf("%d bytes counted, want %d", got, want)
	}

	status(t, "closed by a stranger", 403)(r.closeRoom(t, bobSecret, id))
	status(t, "closed", 204)(r.closeRoom(t, aliceSecret, id))
	status(t, "closed twice", 204)(r.closeRoom(t, aliceSecret, id))
	for _, doc := range []string{small, large, left} {
		if r.served(t, doc) {
			t.Errorf("%.10q is left", doc)
		}
	}
	if got := r.srv.blobs.room.used(); got != 0 {
		t.Errorf("%d bytes are still counted", got)
	}
	assertNoTempFiles(t, r)
}

// TestRoomsOfProviders: keys that the operator has named open rooms like its own. One that
// "*" alone lets in has no more in them than a stranger's key may have.
func TestRoomsOfProviders(t *testing.T) {
	const each = 2 << 20
	limits := Limits{BlobKeyBytes: each}
	bob, carol := publicKey(t, bobSecret), publicKey(t, carolSecret)

	r := start(t, Config{Dir: t.TempDir(), Owners: []string{publicKey(t, aliceSecret)}, Uploaders: []string{carol}, Limits: limits})
	status(t, "opened by one that is named", 201)(r.openRoom(t, carolSecret, requestID(1), bob, 2*each, 1))
	status(t, "into its room", 201)(r.uploadInto(t, bobSecret, requestID(1), "chunk"))
	status(t, "opened by a stranger", 403)(r.openRoom(t, bobSecret, requestID(2), bob, 1, 1))
	status(t, "closed", 204)(r.closeRoom(t, carolSecret, requestID(1)))

	r = start(t, Config{Dir: t.TempDir(), Uploaders: []string{Anyone}, Limits: limits})
	status(t, "opened by anyone", 201)(r.openRoom(t, carolSecret, requestID(1), bob, each-10, 1))
	status(t, "more than a stranger may have", 507)(r.openRoom(t, carolSecret, requestID(2), bob, 11, 1))
	status(t, "as much as a stranger may have", 201)(r.openRoom(t, carolSecret, requestID(2), bob, 10, 1))
	status(t, "closed by another", 204)(r.closeRoom(t, bobSecret, requestID(1)))
	status(t, "into its room", 201)(r.uploadInto(t, bobSecret, requestID(1), "chunk"))
}

// TestRoomBounds: what a provider may ask for.
func TestRoomBounds(t *testing.T) {
	r := provided(t, Limits{MaxBlobBytes: 1 << 20, BlobTotalBytes: 8 << 20})
	bob := publicKey(t, bobSecret)
	for what, c := range map[string]struct{ bytes, blobs, want int }{
		"no bytes":                    {0, 1, 400},
		"negative":                    {-1, 1, 400},
		"no blobs":                    {1, 0, 400},
		"too many blobs":              {1, maxRoomBlob + 1, 400},
		"more than all blobs":         {8<<20 + 1, 1, 507},
		"more than small rooms share": {1<<20 + 1, 1, 507},
		"fits":                        {1 << 20, 1, 201},
	} {
		status(t, what, c.want)(r.openRoom(t, aliceSecret, requestID(c.bytes+c.blobs), bob, c.bytes, c.blobs))
	}
	status(t, "no uploader", 400)(r.openRoom(t, aliceSecret, requestID(7), "npub1", 1, 1))
	status(t, "another room", 401)(r.request(t, http.MethodPut, "/rooms/"+requestID(8), roomAuth(t, aliceSecret, "room", requestID(9), nil), nil))
	status(t, "no room", 401)(r.request(t, http.MethodPut, "/rooms/x", authFor(t, aliceSecret, "room", requestID(9), nil), nil))
}

// TestIdleRoomGivesWay: rooms that nobody paid for have a share of the space; one that
// nothing came into gives its place up after a minute, one with a blob does not.
func TestIdleRoomGivesWay(t *testing.T) {
	r := provided(t, Limits{MaxBlobBytes: 1 << 20, BlobTotalBytes: 8 << 20}) // a MiB for small rooms, a quarter of it a key
	now := time.Now()
	ask := func(n int, secret string, at time.Time) error {
		_, err := r.srv.rooms.open(t.Context(), reservation{
			id: requestID(n), owner: publicKey(t, aliceSecret), uploader: publicKey(t, secret), bytes: 256 << 10, blobs: 1, most: 8 << 20,
		}, at)
		return err
	}
	secrets := []string{bobSecret, carolSecret, nostr.GeneratePrivateKey(), nostr.GeneratePrivateKey(), nostr.GeneratePrivateKey()}
	for i := range 4 {
		if err := ask(i, secrets[i], now); err != nil {
			t.Fatal(err)
		}
	}
	if err := ask(9, bobSecret, now); err != errRoomsOfKey {
		t.Errorf("a second room of a key with its share: %v", err)
	}
	if err := ask(4, secrets[4], now); err != errRoomsFull {
		t.Errorf("all are fresh: %v", err)
	}
	status(t, "into the first", 201)(r.uploadInto(t, bobSecret, requestID(0), "bob's"))
	later := now.Add(roomIdle + time.Second)
	if err := ask(4, secrets[4], later); err != nil {
		t.Errorf("the second is idle: %v", err)
	}
	if !r.served(t, "bob's") {
		t.Error("a room with a blob gave way")
	}
	status(t, "the room that gave way", 404)(r.uploadInto(t, carolSecret, requestID(1), "carol's"))
}

// TestRoomLapses: ten minutes after the last blob, or the last word of its provider, a
// room is gone with what is in it; before that it is not, across restarts.
func TestRoomLapses(t *testing.T) {
	r := provided(t, Limits{})
	bob, cfg := publicKey(t, bobSecret), r.srv.cfg
	status(t, "opened", 201)(r.openRoom(t, aliceSecret, requestID(1), bob, 100, 2))
	status(t, "put", 201)(r.uploadInto(t, bobSecret, requestID(1), "bob's"))
	r.upload(t, aliceSecret, "shared")
	status(t, "put", 200)(r.uploadInto(t, bobSecret, requestID(1), "shared"))
	before := time.Now().Add(roomLife - time.Minute)
	if err := r.srv.rooms.tidy(t.Context(), before); err != nil {
		t.Fatal(err)
	}

	used := r.srv.blobs.room.used()
	r.stop()
	r = start(t, cfg)
	if got := r.srv.blobs.room.used(); got != used {
		t.Errorf("after a restart %d bytes are counted, before %d", got, used)
	}
	status(t, "renewed", 200)(r.openRoom(t, aliceSecret, requestID(1), bob, 100, 2))
	if !r.served(t, "bob's") {
		t.Error("gone before its time")
	}
	if err := r.srv.rooms.tidy(t.Context(), time.Now().Add(roomLife+time.Second)); err != nil {
		t.Fatal(err)
	}
	if r.served(t, "bob's") || !r.served(t, "shared") {
		t.Error("what is only in the room goes, and nothing else")
	}
	if got, want := r.srv.blobs.room.used(), int64(len("shared")+ownedCost); got != want {
		t.Errorf("%d bytes counted, want %d", got, want)
	}
	status(t, "lapsed", 404)(r.uploadInto(t, bobSecret, requestID(1), "more"))
}

// TestRoomsOfAnAddress: one address has few rooms, whatever keys it uses.
func TestRoomsOfAnAddress(t *testing.T) {
	const most = 2
	r := provided(t, Limits{MaxPerAddress: most + 2})
	r.srv.cfg.Limits.MaxPerAddress = most // of its rooms; the connections keep the bound above
	for i := range most + 1 {
		secret := nostr.GeneratePrivateKey()
		status(t, "opened", 201)(r.openRoom(t, aliceSecret, requestID(i), publicKey(t, secret), 100, 2))
		want := 201
		if i == most {
			want = 507
		}
		status(t, fmt.Sprint("room ", i), want)(r.uploadInto(t, secret, requestID(i), fmt.Sprint("blob ", i)))
	}
}

// TestFullDiskRefuses: before anything is read.
func TestFullDiskRefuses(t *testing.T) {
	r := provided(t, Limits{})
	bob := publicKey(t, bobSecret)
	status(t, "opened", 201)(r.openRoom(t, aliceSecret, requestID(1), bob, 100, 2))
	r.srv.blobs.free = func() (int64, error) { return diskLeft + 99, nil }
	status(t, "a room on a full disk", 507)(r.openRoom(t, aliceSecret, requestID(2), bob, 1, 1))
	patient := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: patience}}
	put := func(auth string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, "http://"+r.addr+"/upload", failing{t})
		if err != nil {
			t.Fatal(err)
		}
		req.ContentLength = 100
		req.Header.Set("Expect", "100-continue")
		req.Header.Set("X-SHA-256", sha("x"))
		req.Header.Set("Authorization", auth)
		resp, err := patient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp, string(body)
	}
	status(t, "into a room", 507)(put(intoAuth(t, bobSecret, requestID(1), sha("x"))))
	status(t, "the owner's", 507)(put(authFor(t, aliceSecret, "upload", sha("x"), nil)))
}

// failing is a body that nobody may read.
type failing struct{ t *testing.T }

func (f failing) Read([]byte) (int, error) {
	f.t.Error("the body was asked for")
	return 0, io.EOF
}

// TestRoomUnderRace: many uploads at once do not fill a room beyond its bounds.
func TestRoomUnderRace(t *testing.T) {
	const fit, tries = 3, 8
	r := provided(t, Limits{MaxUploads: 4 * tries})
	size := smallBlob + 10
	status(t, "opened", 201)(r.openRoom(t, aliceSecret, requestID(1), publicKey(t, bobSecret), fit*size, tries))
	var wg sync.WaitGroup
	for i := range tries {
		wg.Go(func() {
			doc := fmt.Sprint(i, strings.Repeat("x", size-1))
			resp, body := r.uploadInto(t, bobSecret, requestID(1), doc)
			if resp.StatusCode != 201 && resp.StatusCode != 413 {
				t.Errorf("%d %s", resp.StatusCode, body)
			}
		})
	}
	wg.Wait()
	n := 0
	for i := range tries {
		if r.served(t, fmt.Sprint(i, strings.Repeat("x", size-1))) {
			n++
		}
	}
	files := 0
	err := r.srv.blobs.db.View(t.Context(), func(tx *sqlite.Tx) error {
		return tx.QueryRow("SELECT count(*) FROM room_blobs").Scan(&files)
	})
	if err != nil || n != fit || files != fit {
		t.Errorf("%d blobs are served, %d stored: %v", n, files, err)
	}
	assertNoTempFiles(t, r)
}

// TestAskBeforeUpload: who asks gets the answer that the upload would get (BUD-06).
func TestAskBeforeUpload(t *testing.T) {
	r := provided(t, Limits{MaxBlobBytes: 1 << 20})
	status(t, "opened", 201)(r.openRoom(t, aliceSecret, requestID(1), publicKey(t, bobSecret), 100, 2))
	ask := func(auth, size string) (*http.Response, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodHead, "http://"+r.addr+"/upload", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", auth)
		req.Header.Set("X-SHA-256", sha("x"))
		req.Header.Set("X-Content-Length", size)
		return do(t, req)
	}
	alice, bob := authFor(t, aliceSecret, "upload", sha("x"), nil), authFor(t, bobSecret, "upload", sha("x"), nil)
	status(t, "the operator", 200)(ask(alice, "1"))
	status(t, "too large", 413)(ask(alice, fmt.Sprint(1<<20+1)))
	status(t, "no length", 411)(ask(alice, ""))
	status(t, "negative", 411)(ask(alice, "-1"))
	status(t, "nobody", 401)(ask("", "1"))
	status(t, "another blob", 403)(ask(authFor(t, aliceSecret, "upload", sha("y"), nil), "1"))
	status(t, "a stranger", 403)(ask(bob, "1"))
	status(t, "into the room", 200)(ask(intoAuth(t, bobSecret, requestID(1), sha("x")), "100"))
	status(t, "more than the room has", 413)(ask(intoAuth(t, bobSecret, requestID(1), sha("x")), "101"))
	status(t, "no room", 404)(ask(intoAuth(t, bobSecret, requestID(2), sha("x")), "1"))
	r.srv.blobs.free = func() (int64, error) { return diskLeft, nil }
	status(t, "a full disk", 507)(ask(alice, "1"))
}
