package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nbd-wtf/go-nostr"
	"github.com/nbd-wtf/go-nostr/nip19"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

func TestKeyFile(t *testing.T) {
	k, err := GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "key")
	if err := k.WriteFile(path); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	if err := k.WriteFile(path); !errors.Is(err, os.ErrExist) {
		t.Errorf("a key file was replaced: %v", err)
	}
	loaded, err := LoadKey(path)
	if err != nil || loaded.PublicKey() != k.PublicKey() {
		t.Fatalf("load: %v", err)
	}
	ev := nostr.Event{Kind: 1, Content: "signed", CreatedAt: 1700000000}
	if err := loaded.Sign(context.Background(), &ev); err != nil {
		t.Fatal(err)
	}
	if err := nip01.Verify(&ev); err != nil || ev.PubKey != k.PublicKey() {
		t.Errorf("signature: %v", err)
	}
}

func TestLoadKeyRefuses(t *testing.T) {
	good := strings.Repeat("11", 32)
	nsec, err := nip19.EncodePrivateKey(good)
	if err != nil {
		t.Fatal(err)
	}
	npub, err := nip19.EncodePublicKey(testKey(t).PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	order := "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	for name, c := range map[string]struct {
		text string
		mode os.FileMode
		want error
	}{
		"hex":            {good, 0o600, nil},
		"newline":        {good + "\n", 0o400, nil},
		"nsec":           {nsec, 0o600, nil},
		"group may read": {good, 0o640, ErrKeyMode},
		"all may read":   {good, 0o604, ErrKeyMode},
		"npub":           {npub, 0o600, ErrKeyFormat},
		"damaged nsec":   {nsec[:len(nsec)-1] + "q", 0o600, ErrKeyFormat},
		"empty":          {"", 0o600, ErrKeyFormat},
		"short":          {good[:62], 0o600, ErrKeyFormat},
		"zero":           {strings.Repeat("00", 32), 0o600, ErrKeyFormat},
		"group order":    {order, 0o600, ErrKeyFormat},
		"large file":     {good + strings.Repeat(" ", 5000), 0o600, ErrKeyFormat},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "key")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(path, c.mode); err != nil {
				t.Fatal(err)
			}
			_, err := LoadKey(path)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want %v", err, c.want)
			}
			if err != nil && c.text != "" && strings.Contains(err.Error(), strings.TrimSpace(c.text)) {
				t.Errorf("the error quotes the file: %v", err)
			}
			if errors.Is(err, ErrKeyMode) && !strings.Contains(err.Error(), "chmod 600") {
				t.Errorf("no hint: %v", err)
			}
		})
	}
	if _, err := LoadKey(t.TempDir()); err == nil {
		t.Error("a folder was read as a key")
	}
}

func TestKeyIsNeverPrinted(t *testing.T) {
	k := testKey(t)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "key", k, "deref", *k)
	out := log.String() + fmt.Sprintf("%+v %#v", struct{ k Key }{*k}, struct{ k *Key }{k})
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		out += fmt.Sprintf(verb+" "+verb+" ", k, *k)
	}
	if strings.Contains(out, k.secret()) || strings.Contains(out, k.secret()[:16]) {
		t.Errorf("the secret is printed: %s", out)
	}
	if !strings.Contains(out, k.PublicKey()) {
		t.Errorf("the public key is not: %s", out)
	}
}
