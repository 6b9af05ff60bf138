package bolt11

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/btcsuite/btcd/chaincfg"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/lightningnetwork/lnd/zpay32"

	"github.com/lightwork-market/lightwork/payments"
)

func seed(f *testing.F) {
	v := readVectors(f)
	for _, x := range v.Valid {
		f.Add(x.Invoice)
	}
	for _, x := range v.Invalid {
		f.Add(x.Invoice)
	}
	f.Add(craft(f, "lnplay10n", plain(), nil))
	f.Add(craft(f, "lnsb", append(plain(), text(fieldPayee, testKey(f).PubKey().SerializeCompressed())), nil))
	f.Add("LNBC1")
}

// FuzzDecode: hostile text never panics, and what is accepted can be written
// again and means the same.
func FuzzDecode(f *testing.F) {
	seed(f)
	key := testKey(f)
	f.Fuzz(func(t *testing.T, s string) {
		inv, err := Decode(s)
		if err != nil {
			if inv != nil {
				t.Fatal("an invoice and an error")
			}
			return
		}
		copied := *inv
		copied.Payee = ""
		again, err := Encode(&copied, signWith(key))
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		got, err := Decode(again)
		if err != nil {
			t.Fatalf("decode again: %v", err)
		}
		if diff := cmp.Diff(inv, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Invoice{}, "Payee")); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzAgainstLnd repairs the signature and checksum of a mutated data part, so
// that the fuzzer gets past them, and compares with lnd's decoder: what we
// accept lnd accepts, with the same money, hash and payee.
func FuzzAgainstLnd(f *testing.F) {
	for _, v := range readVectors(f).Valid {
		hrp, data, err := decodeBech32(v.Invoice)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.TrimPrefix(hrp, "lnbc"), data[timestampGroups:len(data)-signatureGroups])
	}
	params := chaincfg.MainNetParams
	f.Fuzz(func(t *testing.T, amount string, groups []byte) {
		if len(groups) > 1200 || len(amount) > 40 || strings.Trim(amount, "0123456789munpx") != "" {
			return
		}
		for i := range groups {
			groups[i] &= 31
		}
		s := craftGroups(t, "lnbc"+amount, groups, nil)
		inv, err := Decode(s)
		if err != nil {
			return
		}
		theirs, err := zpay32.Decode(s, &params, zpay32.WithErrorOnUnknownFeatureBit())
		if err != nil {
			t.Fatalf("lnd refuses %s: %v", s, err)
		}
		var msats int64
		if theirs.MilliSat != nil {
			msats = int64(*theirs.MilliSat)
		}
		if inv.AmountMsats != msats || inv.PaymentHash != payments.Hash(*theirs.PaymentHash) {
			t.Errorf("amount or hash differ in %s", s)
		}
		if (inv.DescriptionHash == nil) != (theirs.DescriptionHash == nil) ||
			inv.DescriptionHash != nil && [32]byte(*inv.DescriptionHash) != *theirs.DescriptionHash {
			t.Errorf("description hash differs in %s", s)
		}
		if inv.Payee != hex.EncodeToString(theirs.Destination.SerializeCompressed()) {
			t.Errorf("payee differs in %s", s)
		}
		if inv.Expiry != theirs.Expiry() || uint64(inv.MinFinalCLTV) != theirs.MinFinalCLTVExpiry() {
			t.Errorf("expiry or final CLTV differ in %s", s)
		}
	})
}
