package relay

import (
	"bytes"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
)

// TestRoomForABuyer: a provider opens a room on its server, its buyer fills it, and
// whoever has neither is told why not.
func TestRoomForABuyer(t *testing.T) {
	provider, buyer, stranger := testKey(t), generated(t), generated(t)
	r := startRelay(t)
	r.stop()
	r.cfg.Owners, r.cfg.Uploaders = []string{provider.PublicKey()}, []string{}
	r.start()
	site := "http://" + r.addr
	c, theirs := localBlobs(t, site), localBlobs(t)
	data := []byte("a chunk")
	room := Room{Request: hashing.Bytes([]byte("request")).Hex(), Uploader: buyer.PublicKey(), Bytes: int64(len(data)), Blobs: 1}

	refused := func(what string, err error, status int) {
		t.Helper()
		var answer *BlobError
		if !errors.As(err, &answer) || answer.Status != status || answer.Reason == "" {
			t.Errorf("%s: %v, want %d", what, err, status)
		}
	}
	refused("before it is open", theirs.UploadInto(t.Context(), site, room.Request, data, buyer), 404)
	refused("a stranger's room", c.OpenRoom(t.Context(), site, room, stranger), 403)
	for range 2 { // the second time it is prolonged
		if err := c.OpenRoom(t.Context(), site, room, provider); err != nil {
			t.Fatal(err)
		}
	}
	refused("a stranger's chunk", theirs.UploadInto(t.Context(), site, room.Request, data, stranger), 403)
	refused("too much", theirs.UploadInto(t.Context(), site, room.Request, append(data, 0), buyer), 413)
	for range 2 { // the second time it is there
		if err := theirs.UploadInto(t.Context(), site+"/", room.Request, data, buyer); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Download(t.Context(), site+"/"+hashing.Bytes(data).Hex(), hashing.Bytes(data), room.Bytes)
	if err != nil || string(got) != string(data) {
		t.Errorf("%q %v", got, err)
	}

	refused("closed by a stranger", c.CloseRoom(t.Context(), site, room.Request, stranger), 403)
	for range 2 {
		if err := c.CloseRoom(t.Context(), site, room.Request, provider); err != nil {
			t.Error(err)
		}
	}
	_, err = c.Download(t.Context(), site+"/"+hashing.Bytes(data).Hex(), hashing.Bytes(data), room.Bytes)
	refused("after it", err, 404)
}

// countBytes forwards connections to a server, and counts what clients send.
func countBytes(t *testing.T, front net.Listener, to string) *atomic.Int64 {
	t.Helper()
	sent := &atomic.Int64{}
	var open sync.WaitGroup
	forward := func(client net.Conn) {
		defer client.Close()
		upstream, err := net.Dial("tcp", to)
		if err != nil {
			return
		}
		open.Go(func() {
			_, _ = io.Copy(client, upstream)
			client.Close()
		})
		_, _ = io.Copy(io.MultiWriter(upstream, writerFunc(func(p []byte) { sent.Add(int64(len(p))) })), client)
		upstream.Close()
	}
	open.Go(func() {
		for {
			client, err := front.Accept()
			if err != nil {
				return
			}
			open.Go(func() { forward(client) })
		}
	})
	t.Cleanup(func() {
		front.Close()
		open.Wait()
	})
	return sent
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}

// TestLargeChunkAgain: a server that has a chunk answers unread. However large the chunk is,
// nothing of it is sent then.
func TestLargeChunkAgain(t *testing.T) {
	provider, buyer := testKey(t), generated(t)
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	site := "http://" + front.Addr().String()
	r := startRelay(t)
	r.stop()
	r.cfg.Owners, r.cfg.PublicURL = []string{provider.PublicKey()}, site
	r.start()
	sent := countBytes(t, front, r.addr)

	c := localBlobs(t, site)
	data := bytes.Repeat([]byte("chunk"), 8<<20/5)
	room := Room{Request: hashing.Bytes([]byte("request")).Hex(), Uploader: buyer.PublicKey(), Bytes: int64(len(data)), Blobs: 1}
	if err := c.OpenRoom(t.Context(), site, room, provider); err != nil {
		t.Fatal(err)
	}

	theirs := localBlobs(t)
	t.Cleanup(theirs.Close) // before the connections are waited for
	for i := range 3 {
		sent.Store(0)
		if err := theirs.UploadInto(t.Context(), site, room.Request, data, buyer); err != nil {
			t.Fatalf("upload %d: %v", i, err)
		}
		if n := sent.Load(); (n > int64(len(data))) != (i == 0) || i > 0 && n > 8<<10 {
			t.Errorf("upload %d sent %d bytes", i, n)
		}
	}
}

// TestUploadIntoAVillainsServer: an address that a provider names must not lead to this
// machine or its network.
func TestUploadIntoAVillainsServer(t *testing.T) {
	c := NewBlobClient(BlobConfig{})
	t.Cleanup(c.Close)
	for _, site := range []string{"http://127.0.0.1:8080", "https://127.0.0.1", "https://10.0.0.1", "https://169.254.169.254"} {
		if err := c.UploadInto(t.Context(), site, hashing.Bytes(nil).Hex(), []byte("x"), testKey(t)); !errors.Is(err, ErrBlockedAddress) {
			t.Errorf("%s: %v", site, err)
		}
	}
}

func generated(t *testing.T) *Key {
	t.Helper()
	k, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return k
}
