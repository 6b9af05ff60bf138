package yamlfile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
)

type kinds string

func (k *kinds) UnmarshalText(text []byte) error { *k = kinds(text); return nil }

type offer struct {
	Name  string `yaml:"name"`
	Msats int64  `yaml:"msats"`
}

type file struct {
	Version int            `yaml:"version"`
	Small   int8           `yaml:"small"`
	Natural uint16         `yaml:"natural"`
	Pointed *int64         `yaml:"pointed"`
	Rate    *float64       `yaml:"rate"`
	On      bool           `yaml:"on"`
	TTL     time.Duration  `yaml:"ttl"`
	Kinds   []kinds        `yaml:"kinds"`
	Offers  []offer        `yaml:"offers"`
	By      map[string]int `yaml:"by"`
	Free    yaml.MapSlice  `yaml:"free"`
}

// TestNumbers: what a number is written as is what it is, or it is refused where
// it stands.
func TestNumbers(t *testing.T) {
	for _, text := range []string{"0", "7", "-7", "127"} {
		for _, key := range []string{"version: ", "small: ", "pointed: "} {
			var f file
			if bad := Decode([]byte(key+text), &f); len(bad) > 0 {
				t.Errorf("%s%s: %v", key, text, bad)
				continue
			}
			got := fmt.Sprint(f.Version + int(f.Small))
			if f.Pointed != nil {
				got = fmt.Sprint(*f.Pointed)
			}
			if got != text {
				t.Errorf("%s%s is read as %s", key, text, got)
			}
		}
	}
	for _, text := range []string{
		"20.7", "20.0", "020000", "00", "-020", "0o17", "0x10", "0b11", "1_000", "+5", "1e3", "1E3", "2.5e3", ".5", "5.",
		`"20"`, "'20'", ".inf", "-.inf", ".nan", "~", "null", "", "true", "ten", "[20]", "{a: 20}", "!!int 20", "2026-01-02", "12:30:00", "1,000", "20 sat",
	} {
		for _, place := range []string{"version: %s", "pointed: %s", "natural: %s", "offers: [{name: a, msats: %s}]", "offers:\n  - name: a\n    msats: %s", "by: {a: %s}"} {
			src := fmt.Sprintf(place, text)
			if strings.Contains(text, ",") && strings.Contains(place, "{") {
				continue
			}
			var f file
			if bad := Decode([]byte(src), &f); len(bad) == 0 {
				t.Errorf("%q is read as %+v", src, f)
			} else if want := strings.Count(place, "\n") + 1; bad[0].Line != want {
				t.Errorf("%q: %+v, want line %d", src, bad, want)
			}
		}
	}
	for _, text := range []string{"020", "0x10", "1_000", "20.7"} { // by who reads it later
		for _, place := range []string{"free: {a: {network: [%s]}}", "kinds: [%s]"} {
			var f file
			if bad := Decode(fmt.Appendf(nil, place, text), &f); len(bad) != 1 || !strings.HasPrefix(bad[0].Text, wantedNumber) {
				t.Errorf(place+": %v", text, bad)
			}
		}
	}
	for src, want := range map[string]string{
		"small: 128":                    "the number is too large",
		"natural: 65536":                "the number is too large",
		"natural: -1":                   "the number is too large",
		"version: 99999999999999999999": "the number is too large",
	} {
		var f file
		if bad := Decode([]byte(src), &f); len(bad) != 1 || bad[0].Text != want {
			t.Errorf("%s: %v, want %q", src, bad, want)
		}
	}
}

// TestValues: other values too are what is written.
func TestValues(t *testing.T) {
	var f file
	src := "rate: 0.7\non: true\nttl: 1h30m\nkinds: [7, 5000-6999]\noffers:\n  - name: \"020\"\n    msats: 20\nby:\n"
	if bad := Decode([]byte(src), &f); len(bad) > 0 {
		t.Fatal(bad)
	}
	if *f.Rate != 0.7 || !f.On || f.TTL != 90*time.Minute || len(f.Kinds) != 2 || f.Kinds[0] != "7" || f.Offers[0] != (offer{"020", 20}) || f.By != nil {
		t.Errorf("read as %+v", f)
	}
	for src, want := range map[string]string{
		"rate: \"0.7\"":               "expected a number",
		"rate: 1e2":                   "expected a number",
		"rate: 00.7":                  "expected a number",
		"on: yes":                     "expected true or false",
		"on: 1":                       "expected true or false",
		"on:":                         "expected true or false",
		"ttl: 10":                     "expected a time such as 10m",
		"ttl: 10 min":                 "expected a time such as 10m",
		"ttl:":                        "expected a time such as 10m",
		"offers: [{name: 020}]":       "expected a text: put it in quotes",
		"offers: [{name: true}]":      "expected a text: put it in quotes",
		"offers: [{name: [a]}]":       "expected a text",
		"offers: {name: a}":           "expected a list",
		"offers: [a]":                 "expected a mapping",
		"by: [a]":                     "expected a mapping",
		"offers: [{price: 1}]":        `unknown field "price"`,
		"version: 1\nversion: 2":      "already defined",
		"version: &a 1\nsmall: *a":    "anchors and aliases are not supported",
		"version: 1\n---\nversion: 2": "a second document begins here",
		"":                            "the file is empty",
		"# nothing":                   "the file is empty",
		"version: [1":                 "",
	} {
		var f file
		if bad := Decode([]byte(src), &f); len(bad) != 1 || !strings.Contains(bad[0].Text, want) || bad[0].Line < 1 || bad[0].Column < 1 {
			t.Errorf("%q: %+v, want %q", src, bad, want)
		}
	}
}

// TestAllAtOnce: every mistake is found, in the order of the file.
func TestAllAtOnce(t *testing.T) {
	src := "version: 020\nvertion: 1\noffers:\n  - name: a\n    msats: 1.5\n  - msats: x\nttl: 5\n"
	var f file
	var got []string
	for _, p := range Decode([]byte(src), &f) {
		got = append(got, fmt.Sprintf("%d:%d", p.Line, p.Column))
	}
	if want := "1:10 2:1 5:12 6:12 7:6"; strings.Join(got, " ") != want {
		t.Errorf("mistakes at %v, want %s", got, want)
	}
}

func TestAt(t *testing.T) {
	src := []byte("version: 1\noffers:\n  - name: a\n")
	for path, want := range map[string]string{
		"$.offers[0].name":  "3:11",
		"$.offers[0].msats": "3:9",
		"$.offers[4].msats": "3:3",
		"$.nothing":         "1:1",
		"$":                 "1:1",
	} {
		if p := At(src, path, "is wrong"); fmt.Sprintf("%d:%d", p.Line, p.Column) != want {
			t.Errorf("%s is at %d:%d, want %s", path, p.Line, p.Column, want)
		}
	}
	if !Has(src, "$.offers[0].name") || Has(src, "$.offers[0].msats") {
		t.Error("Has does not know what the file has")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("version: 1\noffers: [{name: a, msats: 5}]\n"))
	f.Add([]byte("free: {a: [1, 2]}\nttl: 5m"))
	f.Add([]byte("? [a]\n: b"))
	f.Fuzz(func(t *testing.T, src []byte) {
		var into file
		for _, p := range Decode(src, &into) {
			if p.Line < 1 || p.Column < 0 || p.Text == "" {
				t.Errorf("%q: %+v", src, p)
			}
		}
	})
}
