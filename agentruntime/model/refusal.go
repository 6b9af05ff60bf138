package model

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
	"github.com/lightwork-market/lightwork/agentruntime/redact"
	"github.com/lightwork-market/lightwork/hashing"
)

const (
	maxErrorBody = 16 << 10
	maxDetail    = 300
)

// endpointError is the error format of endpoints, with or without an HTTP status.
type endpointError struct {
	Message string `json:"message"`
}

func (e *endpointError) unavailable() error {
	return &chat.Error{Reason: chat.ErrUnavailable, Detail: e.Message}
}

// refusal converts a status other than 200 to an error.
func (c *Client) refusal(resp *http.Response) *chat.Error {
	e := &chat.Error{Status: resp.StatusCode, RetryAfter: retryAfter(resp.Header)}
	switch s := resp.StatusCode; {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		e.Reason = chat.ErrUnauthorized
		return e // the endpoint's text may mention the key
	case s == http.StatusTooManyRequests:
		e.Reason = chat.ErrRateLimited
	case s >= 500 || s == http.StatusRequestTimeout:
		e.Reason = chat.ErrUnavailable
	case s >= 400:
		e.Reason = chat.ErrRefused
	case s >= 300:
		e.Reason, e.Detail = chat.ErrBadResponse, "redirects are not followed"
		return e
	default:
		e.Reason = chat.ErrBadResponse
		return e
	}

	doc, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	if err != nil {
		return e
	}
	var body struct {
		Error *endpointError `json:"error"`
	}
	if json.Unmarshal(doc, &body) == nil && body.Error != nil {
		e.Detail = body.Error.Message
	}
	return e
}

// decode parses JSON from the endpoint: UTF-8, no duplicate members, names with
// exact case. Unknown members are ignored.
func decode(doc []byte, v any) error {
	if err := jsonv2.Unmarshal(doc, v); err != nil {
		return badResponse("%v", hashing.Mismatch(err))
	}
	return nil
}

func badResponse(format string, args ...any) *chat.Error {
	return &chat.Error{Reason: chat.ErrBadResponse, Detail: fmt.Sprintf(format, args...)}
}

// clean makes text from an endpoint fit for an error: short, on one line, and
// without the key or anything that looks like one.
func (c *Client) clean(s string) string {
	s = s[:min(len(s), maxErrorBody)]
	s = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s)
	if key := c.key(); key != "" {
		s = strings.ReplaceAll(s, key, redact.Mask)
	}
	s = redact.Text(s)
	return strings.ToValidUTF8(s[:min(len(s), maxDetail)], "")
}
