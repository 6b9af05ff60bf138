package relay

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestMayUpload: a provider learns whether a server takes its results before it sells.
func TestMayUpload(t *testing.T) {
	r := startRelay(t)
	key := testKey(t)
	ask := func(server string) error { return localBlobs(t, server).MayUpload(t.Context(), server, key) }
	if err := ask("http://" + r.addr); err != nil {
		t.Errorf("a server for everybody: %v", err)
	}
	r.stop()
	r.cfg.Uploaders = nil
	r.start()
	var refused *BlobError
	if err := ask("http://" + r.addr); !errors.As(err, &refused) || refused.Status != http.StatusForbidden || refused.Reason == "" {
		t.Errorf("a server for others: %v", err)
	}

	other := httptest.NewServer(http.NotFoundHandler()) // knows no such question
	t.Cleanup(other.Close)
	if err := ask(other.URL); err != nil {
		t.Errorf("a server without the question: %v", err)
	}
	r.stop()
	if err := ask("http://" + r.addr); err == nil {
		t.Error("a server that is away")
	}
}
