package relay

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/hashing"
)

// MayUpload asks one of the owner's own servers whether it takes uploads of this key
// (BUD-06). A refusal is a *[BlobError]; nil is also the answer for a server that does
// not know the question.
func (c *BlobClient) MayUpload(ctx context.Context, server string, by Signer) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	some := hashing.Bytes(nil)
	auth, err := authorization(ctx, by, server, "Upload "+some.Hex(), nostr.Tags{{"t", "upload"}, {"x", some.Hex()}}, time.Now())
	if err != nil {
		return fmt.Errorf("ask for an upload: %w", err)
	}
	resp, err := c.own.do(ctx, http.MethodHead, strings.TrimRight(server, "/")+"/upload", nil, http.Header{
		"Authorization":    {auth},
		"X-Sha-256":        {some.Hex()},
		"X-Content-Length": {"0"},
		"X-Content-Type":   {"application/octet-stream"},
	})
	if answer := (*BlobError)(nil); errors.As(err, &answer) && (answer.Status == http.StatusNotFound || answer.Status == http.StatusMethodNotAllowed) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ask for an upload: %w", err)
	}
	return resp.Body.Close()
}
