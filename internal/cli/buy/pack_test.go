package buy

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/lightwork-market/lightwork/market/tree"
)

func TestPackRefusesLinksThatLeadOut(t *testing.T) {
	link := func(to string) fstest.MapFS {
		return fstest.MapFS{"a/link": {Data: []byte(to), Mode: os.ModeSymlink | 0o777}, "f": {Data: []byte("x")}}
	}
	for to, ok := range map[string]bool{
		"../f": true, "other": true, "./x/../y": true, "..": true,
		"../../f": false, "/etc/passwd": false, "x/../../../f": false,
	} {
		if _, err := PackFS(link(to), nil); (err == nil) != ok {
			t.Errorf("link to %s: %v", to, err)
		}
	}
}

// TestPackRefusesNames: what a tree refuses of names a small folder refuses too.
func TestPackRefusesNames(t *testing.T) {
	for name, says := range map[string]string{
		strings.Repeat("d/", 600) + "f": "has 1025 bytes",
		strings.Repeat("n", 256):        "has 256 bytes",
		"pipe":                          "a pipe",
	} {
		files := fstest.MapFS{name: {}}
		if name == "pipe" {
			files[name].Mode = os.ModeNamedPipe
		}
		_, err := PackFS(files, nil)
		var entry *tree.EntryError
		if !errors.As(err, &entry) || !strings.HasPrefix(name, entry.Name) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}

func TestPackCounts(t *testing.T) {
	p, err := PackFS(fstest.MapFS{
		"a": {Data: []byte("12345")}, "d/b": {Data: []byte("123")}, ".git/config": {Data: []byte("secret")}, "sub/.git": {Data: []byte("gitdir")},
	}, nil)
	if err != nil || p.files != 2 || p.bytes != 8 {
		t.Fatalf("%+v, %v", p, err)
	}
	if bytes.Contains(p.Archive, []byte("gitdir")) {
		t.Error(".git was packed")
	}
}

func TestSecretNames(t *testing.T) {
	for name, secret := range map[string]bool{
		".env": true, ".ENV": true, ".env.local": true, "server.pem": true, "Id_Rsa": true, "tls.key": true, ".netrc": true,
		"credentials": true, "credentials.json": true, "admin.macaroon": true,
		".env.example": false, "id_rsa.pub": false, "keyboard.go": false, "environment": false, "main.go": false,
		"credentials.go": false, "Credentials.java": false, "credentials.ts": false, "credentials.h": false, "credentials.yaml": true,
	} {
		if isSecretName(name) != secret {
			t.Errorf("%s: %v", name, !secret)
		}
	}
}
