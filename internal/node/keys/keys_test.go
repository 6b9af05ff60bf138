package keys

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/nbd-wtf/go-nostr"

	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/display"
	"github.com/lightwork-market/lightwork/market/kinds"
	"github.com/lightwork-market/lightwork/relay"
	"github.com/lightwork-market/lightwork/relay/bunker"
)

// secretOne is a key that nobody uses.
const (
	secretOne = "0000000000000000000000000000000000000000000000000000000000000001"
	publicOne = "79be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
)

// node is the configuration of a node whose buyer's key is in keys/buyer.key.
func node(t *testing.T) *config.Config {
	t.Helper()
	c := config.In(t.TempDir())
	c.Identity.BuyerKeyFile, c.Identity.ProviderKeyFile = "keys/buyer.key", "keys/provider.key"
	if err := os.Mkdir(c.Path("keys"), 0o700); err != nil {
		t.Fatal(err)
	}
	return c
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// locked is secretOne under the passphrase "correct horse"; a lock takes long by design.
var locked = sync.OnceValue(func() string {
	key, err := relay.ParseKey(secretOne)
	if err != nil {
		panic(err)
	}
	text, err := key.Lock("correct horse")
	if err != nil {
		panic(err)
	}
	return text
})

// TestParse: a key file says how its key is kept, and whose it is as far as that shows
// without a secret.
func TestParse(t *testing.T) {
	ncryptsec := locked()
	for name, c := range map[string]struct{ text, kept, public string }{
		"hex":                          {secretOne, KeptPlain, publicOne},
		"hex with blanks":              {"  " + secretOne + " \n\n", KeptPlain, publicOne},
		"nsec":                         {"nsec1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqsmhltgl", KeptPlain, publicOne},
		"locked":                       {ncryptsec, KeptLocked, ""},
		"locked, with its owner":       {ncryptsec + "\n# " + display.NPub(publicOne), KeptLocked, publicOne},
		"locked, with a note of words": {ncryptsec + "\n# the old one", KeptLocked, ""},
	} {
		k, err := Parse(RoleKey{Role: "buyer"}, c.text)
		if err != nil || k.Kept != c.kept || k.Public != c.public || k.Text != strings.TrimSpace(strings.Split(strings.TrimSpace(c.text), "\n")[0]) {
			t.Errorf("%s: %+v, %v", name, k, err)
		}
	}

	for name, text := range map[string]string{
		"empty": "", "words": "my key", "short hex": secretOne[1:], "zero": strings.Repeat("0", 64),
		"over the order": strings.Repeat("f", 64), "a public key": display.NPub(publicOne), "half a session": `{"user":"`,
	} {
		k, err := Parse(RoleKey{Role: "buyer", Path: "the/file"}, text)
		if err == nil {
			t.Errorf("%s is taken for a key: %+v", name, k)
		} else if !strings.Contains(err.Error(), "buyer key: the/file") || len(text) > 20 && strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v must name role and file, and not what is in it", name, err)
		}
	}
}

// FuzzParse: whatever is in a key file, nothing of it is lost, and only a key has an
// owner.
func FuzzParse(f *testing.F) {
	f.Add(secretOne)
	f.Add("nsec1qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqsmhltgl\n# note")
	f.Add("ncryptsec1qgg9947rlpvqu76pj5ecreduf9jxhselq2nae2kghhvd5g7dgjtcxfqtd67p9m0w57lspw8gsq6yphnm8623nsl8xn9j4jdzz84zm3frztj3z7s35vpzmqf6ksu8r89qk5z2zxfmu5gv8th8wclt0h4p\n# npub1")
	f.Add("{}")
	f.Fuzz(func(t *testing.T, text string) {
		k, err := Parse(RoleKey{Role: "buyer"}, text)
		if err != nil {
			return
		}
		if !strings.Contains(text, k.Text) || k.Text == "" {
			t.Errorf("%q has the secret line %q", text, k.Text)
		}
		if k.Public != "" && (len(k.Public) != 64 || strings.Trim(k.Public, "0123456789abcdef") != "") {
			t.Errorf("%q belongs to %q", text, k.Public)
		}
	})
}

// TestRead: what is wrong with a key file is told with its role, and a key that others
// could read is not used.
func TestRead(t *testing.T) {
	c := node(t)
	if _, err := Read(c, "buyer"); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(), "buyer key: ") {
		t.Errorf("without a file: %v", err)
	}
	write(t, c.KeyFile("buyer"), secretOne+"\n", 0o644)
	if _, err := Read(c, "buyer"); !errors.Is(err, relay.ErrKeyMode) {
		t.Errorf("a key that all can read: %v", err)
	}
	if err := os.Chmod(c.KeyFile("buyer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if k, err := Read(c, "buyer"); err != nil || k.Public != publicOne || k.Path != c.KeyFile("buyer") || k.Role != "buyer" {
		t.Errorf("%+v, %v", k, err)
	}
}

// TestOpenLocked: a locked key opens with the passphrase of its role alone, and with
// nobody there it asks nobody.
func TestOpenLocked(t *testing.T) {
	c := node(t)
	write(t, c.KeyFile("buyer"), locked()+"\n# "+display.NPub(publicOne)+"\n", 0o600)
	k, err := Read(c, "buyer")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := k.Open(c); !errors.Is(err, ErrNoTerminal) || !strings.Contains(err.Error(), "passphrase") {
		t.Errorf("without a passphrase: %v", err)
	}
	t.Setenv("LIGHTWORK_PROVIDER_PASSPHRASE", "correct horse")
	if _, err := k.Open(c); !errors.Is(err, ErrNoTerminal) {
		t.Errorf("with the provider's passphrase: %v", err)
	}
	t.Setenv("LIGHTWORK_BUYER_PASSPHRASE", "wrong")
	if _, err := k.Open(c); err == nil || strings.Contains(err.Error(), "wrong horse") {
		t.Errorf("with a wrong passphrase: %v", err)
	}
	t.Setenv("LIGHTWORK_BUYER_PASSPHRASE", "correct horse")
	if key, err := k.Open(c); err != nil || key.PublicKey() != publicOne {
		t.Errorf("%v, %v", key, err)
	}

	// A file comes first, and must be the owner's alone.
	c.Identity.BuyerPassphraseFile = "phrase"
	write(t, c.Path("phrase"), "correct horse\n", 0o644)
	if _, err := k.Open(c); err == nil || !strings.Contains(err.Error(), "readable by others") {
		t.Errorf("with a passphrase that all can read: %v", err)
	}
	if err := os.Chmod(c.Path("phrase"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("LIGHTWORK_BUYER_PASSPHRASE", "wrong")
	if _, err := k.Open(c); err != nil {
		t.Errorf("with the passphrase in a file: %v", err)
	}

	// A note that names another owner is a file that was mixed up.
	k.Public = strings.Repeat("a", 64)
	if _, err := k.Open(c); err == nil || !strings.Contains(err.Error(), "names another key than it holds") {
		t.Errorf("of another owner: %v", err)
	}
	if _, err := (RoleKey{Role: "buyer", Kept: KeptRemote}).Open(c); err == nil {
		t.Error("the secret of a remote signer was opened")
	}
}

// TestPlaceKey: a key is put over none, and over another only if that is asked for and
// stays as FILE.old.
func TestPlaceKey(t *testing.T) {
	c := node(t)
	path := filepath.Join(t.TempDir(), "new", "buyer.key")
	one := RoleKey{Role: "buyer", Path: path, Kept: KeptPlain, Text: secretOne}
	if err := PlaceKey(one, false); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path); got != secretOne+"\n" {
		t.Errorf("the file holds %q", got)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v (%v)", st.Mode(), err)
	}

	two := RoleKey{Role: "buyer", Path: path, Kept: KeptLocked, Text: locked(), Public: publicOne}
	if err := PlaceKey(two, false); err == nil || read(t, path) != secretOne+"\n" {
		t.Errorf("a key was replaced unasked: %v", err)
	}
	if err := PlaceKey(two, true); err != nil {
		t.Fatal(err)
	}
	if read(t, path+".old") != secretOne+"\n" || read(t, path) != two.Text+"\n# "+display.NPub(publicOne)+"\n" {
		t.Errorf("%q, and old %q", read(t, path), read(t, path+".old"))
	}
	c.Identity.BuyerKeyFile = path
	if k, err := Read(c, "buyer"); err != nil || k.Public != publicOne || k.Kept != KeptLocked {
		t.Errorf("read back as %+v, %v", k, err)
	}

	// The old one is the only copy of a key: it is not lost to a third.
	if err := PlaceKey(one, true); err == nil || read(t, path+".old") != secretOne+"\n" || read(t, path) != two.Text+"\n# "+display.NPub(publicOne)+"\n" {
		t.Errorf("over FILE.old: %v", err)
	}
}

// TestPlaceKeyWasKilled: wherever a run was killed, a key is whole in its place, and the
// next run ends what it began.
func TestPlaceKeyWasKilled(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "buyer.key")
	write(t, path, secretOne+"\n", 0o600)
	next := RoleKey{Role: "buyer", Path: path, Kept: KeptPlain, Text: strings.Repeat("0", 63) + "2"}

	if err := KeepOld(path); err != nil { // killed after this
		t.Fatal(err)
	}
	if read(t, path) != secretOne+"\n" || !sameFile(path, path+".old") {
		t.Error("the key is not in its place")
	}
	if err := KeepOld(path); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := PlaceKey(next, true); err != nil || read(t, path) != next.Text+"\n" || read(t, path+".old") != secretOne+"\n" {
		t.Errorf("the next run: %v", err)
	}

	if err := KeepOld(filepath.Join(dir, "none")); err != nil {
		t.Errorf("there is nothing to keep: %v", err)
	}
	if sameFile(filepath.Join(dir, "none"), filepath.Join(dir, "none")) {
		t.Error("no file is the same as no file")
	}
	if err := SwapIn(filepath.Join(dir, "none"), path); err == nil || read(t, path) != next.Text+"\n" {
		t.Errorf("nothing was swapped in: %v", err)
	}
}

// TestKeyMaker: a new node gets a key of its own, or the one that it is given, which is
// checked first.
func TestKeyMaker(t *testing.T) {
	c := node(t)
	first, second, from := c.Path("keys/a"), c.Path("keys/b"), c.Path("keys/from")
	for _, path := range []string{first, second} {
		if err := KeyMaker(c, "buyer", "")(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Parse(RoleKey{}, read(t, path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if read(t, first) == read(t, second) {
		t.Error("two nodes have one key")
	}

	write(t, from, secretOne+"\n", 0o600)
	if err := KeyMaker(c, "buyer", from)(c.Path("keys/c")); err != nil || read(t, c.Path("keys/c")) != secretOne+"\n" {
		t.Errorf("from a file: %v", err)
	}
	write(t, from, "no key\n", 0o600)
	if err := KeyMaker(c, "buyer", from)(c.Path("keys/d")); err == nil {
		t.Error("what is no key was taken for one")
	}
	if _, err := os.Stat(c.Path("keys/d")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it left a file: %v", err)
	}
}

// TestSecrets: a secret is one line of a file that its owner alone can read, of a bounded
// size; the one of preimages has 32 bytes.
func TestSecrets(t *testing.T) {
	path := filepath.Join(t.TempDir(), "secret")
	if _, err := RootSecret(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("none: %v", err)
	}
	for text, ok := range map[string]bool{
		secretOne + "\n": true, " " + secretOne + " ": true, strings.ToUpper(strings.Repeat("ab", 32)): true,
		secretOne[2:]: false, secretOne + "00": false, "": false, strings.Repeat("zz", 32): false,
	} {
		_ = os.Remove(path)
		write(t, path, text, 0o600)
		secret, err := RootSecret(path)
		if (err == nil) != ok || ok && len(secret) != 32 || err != nil && text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%q: %x, %v", text, secret, err)
		}
	}

	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o610: false} {
		if err := os.Chmod(path, 0o600); err != nil {
			t.Fatal(err)
		}
		write(t, path, " word \n", 0o600)
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if text, err := ReadSecret(path); (err == nil) != ok || ok && text != "word" {
			t.Errorf("mode %04o: %q, %v", mode, text, err)
		}
	}

	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for size, ok := range map[int]bool{4096: true, 4097: false} {
		write(t, path, strings.Repeat("s", size), 0o600)
		if _, err := ReadSecret(path); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestSignedKinds: a remote signer is asked for what the role signs, and for what the
// configuration adds to that.
func TestSignedKinds(t *testing.T) {
	c := node(t)
	c.Provider.Kinds = []int{5100}
	c.Provider.Lifecycle.AgentState = 39201
	if got := SignedKinds(c, "buyer"); !slices.Equal(got, kinds.SignedByBuyer()) {
		t.Errorf("buyer: %v", got)
	}
	want := append(kinds.SignedByProvider(), 6100, 39201)
	if got := SignedKinds(c, "provider"); !slices.Equal(got, want) {
		t.Errorf("provider: %v, want %v", got, want)
	}
}

// TestSign: a key in a file signs for its role, and needs nobody who serves it.
func TestSign(t *testing.T) {
	c := node(t)
	if _, err := Open(c, "buyer", slog.Default()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a key: %v", err)
	}
	write(t, c.KeyFile("buyer"), secretOne, 0o600)
	s, err := Open(c, "buyer", slog.Default())
	if err != nil || s.Remote != nil || s.PublicKey() != publicOne || s.Cipher == nil {
		t.Fatalf("%+v, %v", s, err)
	}
	ev := nostr.Event{Kind: 1, CreatedAt: 1, Content: "x"}
	if err := s.Sign(t.Context(), &ev); err != nil {
		t.Fatal(err)
	}
	if ok, err := ev.CheckSignature(); !ok || err != nil || ev.PubKey != publicOne {
		t.Errorf("signed as %+v (%v)", ev, err)
	}
	if err := s.Serve(t.Context()); err != nil {
		t.Errorf("serve: %v", err)
	}

	if !bytes.Contains([]byte(PassphraseSources(c, "buyer")), []byte("LIGHTWORK_BUYER_PASSPHRASE")) {
		t.Errorf("the variable is not named in %q", PassphraseSources(c, "buyer"))
	}
	if bunker.IsSession(secretOne) {
		t.Error("a key is taken for a remote one")
	}
}

// TestMoveInKeepsTheFile: the next key, which the old one has named, outlives a failure.
func TestMoveInKeepsTheFile(t *testing.T) {
	next := filepath.Join(t.TempDir(), "next")
	if err := os.WriteFile(next, []byte("key"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := MoveIn(next, filepath.Join(t.TempDir(), "no", "folder")); err == nil {
		t.Error("moved to nowhere")
	}
	if _, err := os.Stat(next); err != nil {
		t.Error(err)
	}
}
