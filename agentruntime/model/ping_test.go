package model

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/model/chat"
)

// TestPing: an endpoint without a list of models is there; one that fails, or
// refuses the key, cannot be worked with.
func TestPing(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		models []string
		want   error
	}{
		{http.StatusOK, `{"data":[{"id":"a"},{"id":"b"}]}`, []string{"a", "b"}, nil},
		{http.StatusOK, `<html>`, nil, nil},
		{http.StatusBadRequest, `{"error":{"message":"messages: is missing"}}`, nil, nil},
		{http.StatusNotFound, "", nil, nil},
		{http.StatusMethodNotAllowed, "", nil, nil},
		{http.StatusUnprocessableEntity, "", nil, nil},
		{http.StatusTooManyRequests, "", nil, nil},
		{http.StatusNotImplemented, "", nil, nil},
		{http.StatusUnauthorized, "", nil, chat.ErrUnauthorized},
		{http.StatusForbidden, "", nil, chat.ErrUnauthorized},
		{http.StatusTemporaryRedirect, "", nil, chat.ErrBadResponse},
		{http.StatusInternalServerError, "", nil, chat.ErrUnavailable},
		{http.StatusBadGateway, "", nil, chat.ErrUnavailable},
		{http.StatusServiceUnavailable, "", nil, chat.ErrUnavailable},
	} {
		var asked []string
		base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, r.Method+" "+r.URL.Path)
			w.WriteHeader(test.status)
			io.WriteString(w, test.body)
		}))
		models, err := ping(t, base)
		if !errors.Is(err, test.want) || !slices.Equal(models, test.models) || !slices.Equal(asked, []string{"GET /v1/models"}) {
			t.Errorf("%d: %q, %v; asked %q", test.status, models, err, asked)
		}
	}

	base := serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	if _, err := ping(t, base); !errors.Is(err, chat.ErrUnavailable) {
		t.Errorf("an endpoint that hangs up: %v", err)
	}
}

func ping(t *testing.T, base string) ([]string, error) {
	t.Helper()
	c, err := New(Config{BaseURL: base + "/v1", Model: "configured"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.Ping(t.Context())
}
