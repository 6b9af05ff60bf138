package lnd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"google.golang.org/grpc/credentials"
)

// maxCredential bounds the files of the certificate and the macaroon, in bytes.
const maxCredential = 64 << 10

// loadCertificate trusts only the certificate in path, because lnd's certificate is
// self-signed.
func loadCertificate(path string) (credentials.TransportCredentials, error) {
	pem, err := readBounded(path)
	if err != nil {
		return nil, fmt.Errorf("read lnd's TLS certificate: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read lnd's TLS certificate: %s contains no PEM certificate", path)
	}
	return credentials.NewTLS(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}), nil
}

// macaroon is the credential for lnd's calls. It prints as a placeholder, so that
// logs do not show it.
type macaroon struct{ hex string }

func loadMacaroon(path string) (macaroon, error) {
	content, err := readBounded(path)
	if err != nil {
		return macaroon{}, fmt.Errorf("read lnd's macaroon: %w", err)
	}
	// The text form would be accepted here, and lnd would refuse it with an
	// unhelpful error. A binary macaroon starts with its version, 2.
	if content[0] != 2 {
		return macaroon{}, fmt.Errorf("read lnd's macaroon: %s is not a binary macaroon", path)
	}
	return macaroon{hex: hex.EncodeToString(content)}, nil
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (m macaroon) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"macaroon": m.hex}, nil
}

// RequireTransportSecurity prevents sending the macaroon unencrypted.
func (macaroon) RequireTransportSecurity() bool { return true }

func (macaroon) String() string   { return "[macaroon]" }
func (macaroon) GoString() string { return "[macaroon]" }

func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	content, err := io.ReadAll(io.LimitReader(f, maxCredential+1))
	switch {
	case err != nil:
		return nil, err
	case len(content) == 0:
		return nil, errors.New(path + " is empty")
	case len(content) > maxCredential:
		return nil, errors.New(path + " is too large")
	}

	return content, nil
}
