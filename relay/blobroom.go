package relay

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nbd-wtf/go-nostr"
)

// Room is the space on a blob server that a provider opens for the buyer of one
// request.
type Room struct {
	Request  string // id of the event, hex
	Uploader string // public key, hex
	Bytes    int64
	Blobs    int
}

// OpenRoom opens a room on one of the owner's own servers, or prolongs the life of the
// same one by 10 minutes.
func (c *BlobClient) OpenRoom(ctx context.Context, server string, r Room, by Signer) error {
	tags := nostr.Tags{
		{"t", "room"}, {"e", r.Request}, {"p", r.Uploader}, {"bytes", strconv.FormatInt(r.Bytes, 10)}, {"blobs", strconv.Itoa(r.Blobs)},
	}
	if err := c.room(ctx, http.MethodPut, server, r.Request, tags, by); err != nil {
		return fmt.Errorf("open room: %w", err)
	}
	return nil
}

// CloseRoom removes the room of a request, with all that is in it. One that is not open
// is closed.
func (c *BlobClient) CloseRoom(ctx context.Context, server, request string, by Signer) error {
	if err := c.room(ctx, http.MethodDelete, server, request, nostr.Tags{{"t", "close"}, {"e", request}}, by); err != nil {
		return fmt.Errorf("close room: %w", err)
	}
	return nil
}

func (c *BlobClient) room(ctx context.Context, method, server, request string, tags nostr.Tags, by Signer) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()

	auth, err := authorization(ctx, by, server, "Room of "+request, tags, time.Now())
	if err != nil {
		return err
	}
	resp, err := c.own.do(ctx, method, strings.TrimRight(server, "/")+"/rooms/"+request, nil, http.Header{"Authorization": {auth}})
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// UploadInto stores data in the room of a request, on a server that its provider named.
// Uploading a blob again is harmless, and costs no bytes.
func (c *BlobClient) UploadInto(ctx context.Context, server, request string, data []byte, by Signer) error {
	_, err := c.upload(ctx, c.transportFor(server), server, data, "application/octet-stream", by, nostr.Tag{"e", request})
	return err
}
