package keys

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/relay"
)

func generate(t *testing.T) *relay.Key {
	t.Helper()
	key, err := relay.GenerateKey()
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// TestOwnChanges: what both keys signed is kept whole, refuses the old key and no other,
// and is read by the verifier's reader.
func TestOwnChanges(t *testing.T) {
	c := node(t)
	own := ChangesOf(c, "buyer")
	if events, _, err := own.Read(); err != nil || len(events) != 0 {
		t.Fatalf("before the first change: %v, %v", events, err)
	}
	old, next := generate(t), generate(t)
	statement, err := SignEnd(t.Context(), old, next.PublicKey(), receipts.KeyRotated)
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Add(statement); err != nil {
		t.Fatal(err)
	}
	if err := CheckAlive(c, "buyer", old.PublicKey()); err != nil {
		t.Errorf("before the next key agreed: %v", err)
	}

	accepted, err := SignAcceptance(t.Context(), next, statement)
	if err != nil {
		t.Fatal(err)
	}
	if err := own.Add(accepted); err != nil {
		t.Fatal(err)
	}
	var ended *EndedError
	if err := CheckAlive(c, "buyer", old.PublicKey()); !errors.As(err, &ended) || ended.End.Next != next.PublicKey() {
		t.Errorf("the old key: %v", err)
	}
	for role, key := range map[string]*relay.Key{"buyer": next, "provider": old} { // each role has a file of its own
		if err := CheckAlive(c, role, key.PublicKey()); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}

	events, history, err := own.Read()
	if err != nil || len(events) != 2 || !history.Leads(old.PublicKey(), next.PublicKey()) {
		t.Errorf("%d events, %v", len(events), err)
	}
	if back, err := FromNostr(ToNostr(accepted)); err != nil || string(back.JSON()) != string(accepted.JSON()) {
		t.Errorf("as a relay has it: %s, %v", back.JSON(), err)
	}
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(own.path), ".keys-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestOwnChangesRefuse: nothing that is no statement is added, a file that holds something
// else is not taken for none, and a wrong next key does not sign.
func TestOwnChangesRefuse(t *testing.T) {
	c := node(t)
	own := ChangesOf(c, "buyer")
	old, next, stranger := generate(t), generate(t), generate(t)
	statement, err := SignEnd(t.Context(), old, next.PublicKey(), receipts.KeyRotated)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := SignAcceptance(t.Context(), stranger, statement); err == nil {
		t.Error("a stranger accepts")
	}
	if _, err := SignEnd(t.Context(), old, old.PublicKey(), receipts.KeyRotated); err == nil {
		t.Error("a key follows itself")
	}
	if _, err := SignEnd(t.Context(), old, "", receipts.KeyRotated); err == nil {
		t.Error("rotated to nobody")
	}

	forged := statement
	forged.Sig = strings.Repeat("1", 128)
	if err := own.Add(forged); err == nil {
		t.Error("a forged statement is added")
	}
	if _, err := os.Stat(own.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a refused one made the file: %v", err)
	}

	if err := own.Add(statement); err != nil {
		t.Fatal(err)
	}
	good := read(t, own.path)
	for name, text := range map[string]string{
		"cut": good[:len(good)/2], "another form": " " + good, "a line too many": good + "\n", "too large": strings.Repeat("x", maxOwnChanges+1),
	} {
		write(t, own.path, text, 0o600)
		if _, _, err := own.Read(); err == nil || !strings.Contains(err.Error(), own.path) {
			t.Errorf("%s: %v", name, err)
		}
		if err := CheckAlive(c, "buyer", old.PublicKey()); err == nil {
			t.Errorf("%s: taken for no change", name)
		}
		if err := own.Add(statement); err == nil || read(t, own.path) != text {
			t.Errorf("%s: written over: %v", name, err)
		}
	}
}
