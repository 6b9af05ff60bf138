package model

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
)

const (
	pingTime = 10 * time.Second
	maxList  = 4 << 20 // of the list of models, in bytes
)

// Ping checks that the endpoint is reachable and accepts the key by requesting its
// list of models, which costs nothing and sends nobody's data. It returns the
// names, or none if the endpoint offers no list; many do not, so a refusal for any
// other reason than the key counts as success. Failures are of type *chat.Error.
func (c *Client) Ping(ctx context.Context) (models []string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, pingTime, &chat.Error{Reason: chat.ErrTimeout, Detail: "asked for its models"})
	defer cancel()

	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+"/models", nil)
	if err != nil {
		return nil, c.asError(err)
	}
	req.Header.Set("Accept", mediaJSON)
	if key := c.key(); key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, c.asError(err)
	}
	defer resp.Body.Close()

	switch s := resp.StatusCode; {
	case s == http.StatusOK:
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		return nil, c.refusal(resp)
	case s >= 400 && s < 500, s == http.StatusNotImplemented:
		return nil, nil // it is reachable, but offers no list
	default:
		return nil, c.refusal(resp)
	}

	doc, err := io.ReadAll(io.LimitReader(resp.Body, maxList))
	if err != nil {
		return nil, c.asError(err)
	}
	var list struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	if json.Unmarshal(doc, &list) != nil {
		return nil, nil // the list has another format
	}
	for _, m := range list.Data {
		models = append(models, m.ID)
	}
	return models, nil
}
