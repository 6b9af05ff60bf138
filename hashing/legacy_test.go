package hashing

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

type upstreamVectors struct {
	Recorded []struct {
		Name          string          `json:"name"`
		Payload       json.RawMessage `json:"payload"`
		CanonicalJSON string          `json:"canonical_json"`
		SHA256        string          `json:"sha256"`
		RFC8785Agrees bool            `json:"rfc8785_agrees"`
	} `json:"recorded"`
	Derived []struct {
		Name          string `json:"name"`
		SHA256        string `json:"sha256"`
		CanonicalJSON string `json:"canonical_json"`
		RFC8785Agrees bool   `json:"rfc8785_agrees"`
	} `json:"derived"`
}

func TestUpstreamVectors(t *testing.T) {
	requirements.Covers(t, "OA-6.4", "K-26")
	var v upstreamVectors
	if err := json.Unmarshal(readFile(t, "testdata/openagents/canonical-hash.json"), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Recorded) != 5 || len(v.Derived) != 10 {
		t.Fatalf("%d recorded, %d derived vectors", len(v.Recorded), len(v.Derived))
	}
	check := func(name string, doc []byte, text, digest string, agrees bool) {
		want, err := ParseDigest(digest)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		legacy, err := LegacyCanonical(doc)
		if err != nil || string(legacy) != text || Bytes(legacy) != want {
			t.Errorf("%s: legacy %s, %v; want %s", name, legacy, err, text)
		}
		got, err := Sum(doc)
		if err != nil || (got == want) != agrees {
			t.Errorf("%s: RFC 8785 gives %v, %v; recorded %v, agrees %v", name, got, err, want, agrees)
		}
	}
	for _, r := range v.Recorded {
		check(r.Name, r.Payload, r.CanonicalJSON, r.SHA256, r.RFC8785Agrees)
	}
	for _, d := range v.Derived {
		check(d.Name, []byte(d.CanonicalJSON), d.CanonicalJSON, d.SHA256, d.RFC8785Agrees)
	}
}

func TestUpstreamTrajectory(t *testing.T) {
	var history struct {
		Events   []LegacyEvent `json:"events"`
		Expected struct {
			TrajectoryHash Digest `json:"trajectory_hash"`
		} `json:"expected"`
	}
	if err := json.Unmarshal(readFile(t, "testdata/openagents/history-run_happy_path_v1.json"), &history); err != nil {
		t.Fatal(err)
	}
	got, err := LegacyTrajectory(history.Events)
	if err != nil || got != history.Expected.TrajectoryHash {
		t.Errorf("got %v, %v, want %v", got, err, history.Expected.TrajectoryHash)
	}
	history.Events[1].Seq = 3
	if changed, err := LegacyTrajectory(history.Events); err != nil || changed == got {
		t.Errorf("a changed event keeps the hash: %v, %v", changed, err)
	}
}

func TestLegacyForm(t *testing.T) {
	requirements.Covers(t, "K-26")
	for _, tt := range []struct{ doc, legacy, rfc string }{
		// Bytes put U+E000 before U+1F600, UTF-16 the other way round.
		{`{"😀":1,"` + "\ue000" + `":2}`, "{\"\ue000\":2,\"😀\":1}", "{\"😀\":1,\"\ue000\":2}"},
		{`{"a\"b":1}`, `{"a\"b":1}`, `{"a\"b":1}`},
		{`[1.0,1,1e0,-0.0]`, `[1.0,1,1.0,-0.0]`, `[1,1,1,0]`},
		{`[1e21,1e-7]`, `[1e21,1e-7]`, `[1e+21,1e-7]`},
	} {
		legacy, err := LegacyCanonical([]byte(tt.doc))
		if err != nil || string(legacy) != tt.legacy {
			t.Errorf("%s: legacy %s, %v; want %s", tt.doc, legacy, err, tt.legacy)
		}
		rfc, err := Canonical([]byte(tt.doc))
		if err != nil || string(rfc) != tt.rfc {
			t.Errorf("%s: RFC 8785 %s, %v; want %s", tt.doc, rfc, err, tt.rfc)
		}
	}
	for _, bad := range []string{`{"a":1,"a":2}`, `"\ud800"`, `[1,`, `1e999`} {
		if out, err := LegacyCanonical([]byte(bad)); err == nil {
			t.Errorf("%s became %s", bad, out)
		}
	}
}

func TestLegacyNumbers(t *testing.T) {
	for in, want := range map[string]string{
		"0": "0", "-0": "-0.0", "0.0": "0.0", "7": "7", "-7": "-7",
		"18446744073709551615":    "18446744073709551615",
		"-9223372036854775808":    "-9223372036854775808",
		"18446744073709551616":    "1.8446744073709552e19",
		"1.50":                    "1.5",
		"100.0":                   "100.0",
		"1234567890123456.0":      "1234567890123456.0",
		"12345678901234567.0":     "1.2345678901234568e16",
		"1e15":                    "1000000000000000.0",
		"1e16":                    "1e16",
		"0.00001":                 "0.00001",
		"0.000001":                "1e-6",
		"0.0000123":               "0.0000123",
		"-0.00000123":             "-1.23e-6",
		"5e-324":                  "5e-324",
		"1.7976931348623157e+308": "1.7976931348623157e308",
	} {
		if got, err := LegacyCanonical([]byte(in)); err != nil || string(got) != want {
			t.Errorf("%s: got %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestLegacyTime(t *testing.T) {
	base := time.Date(2026, 2, 1, 10, 0, 1, 0, time.FixedZone("", 3600))
	for ns, want := range map[time.Duration]string{
		0:           "2026-02-01T09:00:01+00:00",
		120_000_000: "2026-02-01T09:00:01.120+00:00",
		120_000:     "2026-02-01T09:00:01.000120+00:00",
		7:           "2026-02-01T09:00:01.000000007+00:00",
	} {
		if got := legacyTime(base.Add(ns)); got != want {
			t.Errorf("%v: got %s, want %s", ns, got, want)
		}
	}
}

func FuzzLegacy(f *testing.F) {
	f.Add([]byte(`{"b":1.0,"a":[18446744073709551615,-0,1e300]}`), uint64(0x3ff0000000000000))
	f.Fuzz(func(t *testing.T, doc []byte, bits uint64) {
		if out, err := LegacyCanonical(doc); err == nil {
			again, err := LegacyCanonical(out)
			if err != nil || !bytes.Equal(again, out) {
				t.Errorf("not idempotent: %q, then %q, %v", out, again, err)
			}
		}
		v := math.Float64frombits(bits)
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return
		}
		text := string(appendLegacyFloat(nil, v))
		if back, err := strconv.ParseFloat(text, 64); err != nil || back != v {
			t.Errorf("%016x became %s, which is %v, %v", bits, text, back, err)
		}
	})
}
