package devnet

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
)

// rest is a client of one node's REST port.
type rest struct {
	address      string
	macaroonFile string
	http         *http.Client
}

// restError is an answer with a status other than 200.
type restError struct {
	Status  int
	Message string
}

func (e *restError) Error() string { return fmt.Sprintf("HTTP %d: %s", e.Status, e.Message) }

// tlsClient returns a client that trusts only the certificate in certFile.
func tlsClient(certFile string) (*http.Client, error) {
	pem, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in " + certFile)
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}}, nil
}

// call sends body as JSON (nil for none) and decodes the answer into reply (nil to
// ignore it). Paths outside /v1/state need the macaroon.
func (r *rest) call(ctx context.Context, method, path string, body, reply any) error {
	var in io.Reader
	if body != nil {
		doc, err := json.Marshal(body)
		if err != nil {
			return err
		}
		in = bytes.NewReader(doc)
	}

	req, err := http.NewRequestWithContext(ctx, method, "https://"+r.address+path, in)
	if err != nil {
		return err
	}
	if macaroon, err := os.ReadFile(r.macaroonFile); err == nil {
		req.Header.Set("Grpc-Metadata-macaroon", hex.EncodeToString(macaroon))
	}
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()

	doc, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		var failure struct{ Message string }
		if json.Unmarshal(doc, &failure) != nil {
			failure.Message = resp.Status
		}
		return &restError{Status: resp.StatusCode, Message: failure.Message}
	}

	if reply == nil {
		return nil
	}
	return json.Unmarshal(doc, reply)
}
