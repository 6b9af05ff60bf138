package relay

import (
	"errors"
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
