package lowerbech32_test

import (
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcutil/bech32"

	"github.com/lightwork-market/lightwork/internal/lowerbech32"
)

// same holds Decode against btcutil's, which takes upper case and bech32m too.
func same(t *testing.T, text string) {
	t.Helper()
	prefix, groups, ok := lowerbech32.Decode(text)
	wantPrefix, wantGroups, err := bech32.DecodeNoLimit(text)
	want := err == nil
	if want {
		again, err := bech32.Encode(wantPrefix, wantGroups)
		want = err == nil && again == text
	}
	if ok != want || ok && (prefix != wantPrefix || string(groups) != string(wantGroups)) {
		t.Errorf("%q: %q %v %v, not %q %v %v", text, prefix, groups, ok, wantPrefix, wantGroups, want)
	}
}

// texts are those of BIP-173 and BIP-350, valid and not, and an npub of NIP-19.
var texts = []string{
	"a12uel5l",
	"A12UEL5L",
	"a1lqfn3a",
	"an83characterlonghumanreadablepartthatcontainsthenumber1andtheexcludedcharactersbio1tt5tgs",
	"abcdef1qpzry9x8gf2tvdw0s3jn54khce6mua7lmqqqxw",
	"11qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqc8247j",
	"split1checkupstagehandshakeupstreamerranterredcaperred2y9e3w",
	"?1ezyfcl",
	"npub180cvv07tjdrrgpa0j7j7tmnyl2yr6yr7l8j4s3evf6u64th6gkwsyjh6w6",
	"\x201nwldj5", "\x7f1axkwrx", "\x801eym55h",
	"pzry9x0s0muk", "1pzry9x0s0muk", "x1b4n0q5v", "li1dgmt3", "de1lg7wt\xff", "10a06t8", "1qzzfhee", "", "1", "a1", "qqqqqq",
}

func TestDecode(t *testing.T) {
	read := 0
	for _, text := range texts {
		same(t, text)
		if _, _, ok := lowerbech32.Decode(text); ok {
			read++
		}
		for i := range len(text) { // each character another
			for _, c := range "q1lA\x1f\x7f" {
				same(t, text[:i]+string(c)+text[i+1:])
			}
			same(t, text[:i]+text[i+1:])
		}
	}
	if read != 7 {
		t.Errorf("%d texts are right, not 7", read)
	}
}

// Groups of every value at every place of a long text, as an invoice is.
func TestDecodeLong(t *testing.T) {
	groups := make([]byte, 700)
	for shift := range byte(32) {
		for i := range groups {
			groups[i] = (byte(i) + shift) % 32
		}
		text, err := bech32.Encode("lnbc", groups)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, ok := lowerbech32.Decode(text); !ok {
			t.Errorf("shifted by %d it is not read", shift)
		}
		same(t, text)
		same(t, strings.ToUpper(text))
		m, err := bech32.EncodeM("lnbc", groups)
		if err != nil {
			t.Fatal(err)
		}
		same(t, m)
	}
}

func FuzzDecode(f *testing.F) {
	for _, text := range texts {
		f.Add(text)
	}
	f.Fuzz(same)
}
