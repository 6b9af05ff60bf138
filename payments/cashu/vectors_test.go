package cashu

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/btcec/v2"

	"github.com/lightwork-market/lightwork/payments"
)

// The vectors of NUT-00.
func TestHashToCurve(t *testing.T) {
	for message, want := range map[string]string{
		strings.Repeat("00", 32):        "024cce997d3b518f739663b757deaec95bcd9473c30a14ac2fd04023a739d1a725",
		strings.Repeat("00", 31) + "01": "022e7158e11c9506f1aa4248bf531298daa7febd6194f003edcd9b93ade6253acf",
	} {
		raw, _ := hex.DecodeString(message)
		y, err := hashToCurve(raw)
		if err != nil || pointText(y) != want {
			t.Errorf("%s: %v, %v", message, pointText(y), err)
		}
	}
}

// The vectors of NUT-12.
func TestDLEQ(t *testing.T) {
	generator := "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"
	key, _ := parsePoint(generator)
	blinded, _ := parsePoint("02a9acc1e48c25eeeb9289b5031cc57da9fe72f3fe2861d264bdc074209b107ba2")
	e, _ := parseScalar("9818e061ee51d5c8edc3342369a554998ff7b4381c8652d724cdf46429be73d9")
	s, _ := parseScalar("9818e061ee51d5c8edc3342369a554998ff7b4381c8652d724cdf46429be73da")
	if !verifyDLEQ(e, s, key, blinded, blinded) || verifyDLEQ(s, e, key, blinded, blinded) {
		t.Error("a blind signature's proof")
	}
	n := note{
		Amount: 1, Keyset: "00882760bfa2eb41",
		Secret: "daf4dd00a2b68a0858a80450f52c8a7d2ccf87d375e43e216e0c571f089f63e9",
		C:      "024369d2d22a80ecf78f3937da9d5f30c1b9f74f0c32684d583cca0fa6a61cdcfc",
		DLEQ: &dleq{
			E: "b31e58ac6527f34975ffab13e70a48b6d2b0d35abc4b03f0151f09ee1a9763d4",
			S: "8fbae004c59e754d71df67e392b6ae4e29293113ddc2ec86592a0431d16306d8",
			R: "a6d13fcd7a18442e6076f5e1e7c887ad5de40a019824bdfa9fe740d302e8d861",
		},
	}
	k := &keyset{id: n.Keyset, keys: map[int64]*btcec.PublicKey{1: key, 2: blinded}}
	if err := n.check(k); err != nil {
		t.Error(err)
	}
	n.Amount = 2
	if err := n.check(k); err == nil {
		t.Error("the proof holds for another amount")
	}
}

// The vectors of NUT-13.
func TestDerive(t *testing.T) {
	seed, err := ParseSeed(ofNUT13)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keyset    string
		counter   uint32
		secret, r string
	}{
		{"009a1f293253e41e", 0, "485875df74771877439ac06339e284c3acfcd9be7abf3bc20b516faeadfe77ae", "ad00d431add9c673e843d4c2bf9a778a5f402b985b8da2d5550bf39cda41d679"},
		{"009a1f293253e41e", 4, "576c23393a8b31cc8da6688d9c9a96394ec74b40fdaf1f693a6bb84284334ea0", "5f09bfbfe27c439a597719321e061e2e40aad4a36768bb2bcc3de547c9644bf9"},
		{"015ba18a8adcd02e715a58358eb618da4a4b3791151a4bee5e968bb88406ccf76a", 0, "db5561a07a6e6490f8dadeef5be4e92f7cebaecf2f245356b5b2a4ec40687298", "6d26181a3695e32e9f88b80f039ba1ae2ab5a200ad4ce9dbc72c6d3769f2b035"},
		{"015ba18a8adcd02e715a58358eb618da4a4b3791151a4bee5e968bb88406ccf76a", 4, "5e89fc5d30d0bf307ddf0a3ac34aa7a8ee3702169dafa3d3fe1d0cae70ecd5ef", "5550337312d223ba62e3f75cfe2ab70477b046d98e3e71804eade3956c7b98cf"},
	} {
		secret, r, err := seed.derive(c.keyset, c.counter)
		if err != nil || secret != c.secret || scalarText(r) != c.r {
			t.Errorf("%s %d: %s, %s, %v", c.keyset, c.counter, secret, scalarText(r), err)
		}
	}
	for _, none := range []string{"nonsense", "029a1f293253e41e", "01ba18a8adcd02e7", "009A1F293253E41E"} {
		if _, _, err := seed.derive(none, 0); err == nil {
			t.Errorf("%s is a keyset", none)
		}
	}
}

// A lock is read as it was written, and nothing else is taken for one.
func TestParseLock(t *testing.T) {
	key := pointText(newSeed(t).nodeKey().PubKey())
	want := lock{hash: payments.Preimage{1}.Hash(), payee: key, refund: key, until: 1_900_000_000}
	secret, err := want.noteSecret("00ff")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parseLock(secret); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, change := range [][2]string{
		{`HTLC`, `P2PK`},
		{`["n_sigs","1"]`, `["n_sigs","2"]`},
		{`["n_sigs","1"]`, `["sigflag","SIG_ALL"]`},
		{`["n_sigs","1"]`, `["other","1"]`},
		{`["n_sigs","1"]`, `["refund","` + key + `"]`},
		{`["pubkeys","` + key + `"]`, `["pubkeys","` + key + `","` + key + `"]`},
		{`["pubkeys","` + key + `"],`, ``},
		{`["locktime","1900000000"]`, `["locktime","0"]`},
		{`["locktime","1900000000"],`, ``},
		{want.hash.String(), "00"},
		{`]}]`, `]},1]`},
	} {
		bad := strings.Replace(secret, change[0], change[1], 1)
		if got, err := parseLock(bad); err == nil {
			t.Errorf("%s is %+v", bad, got)
		}
	}
}

func FuzzParseMessage(f *testing.F) {
	f.Add([]byte(`{"id":"` + strings.Repeat("0", 64) + `","mint":"https://m","unit":"sat","proofs":[{"amount":1,"id":"0011223344556677","secret":"s","C":"02"}]}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		_, notes, err := parseMessage(doc, "m")
		for _, n := range notes {
			_, _ = parseLock(n.Secret)
			_ = n.check(&keyset{id: n.Keyset})
		}
		if err == nil && len(notes) == 0 {
			t.Error("no notes and no error")
		}
	})
}
