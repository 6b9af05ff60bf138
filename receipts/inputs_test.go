package receipts_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/receipts"
)

func TestInputText(t *testing.T) {
	for name, ev := range map[string]receipts.Event{
		"oversize":  {Content: strings.Repeat("x", receipts.MaxInputBytes+1)},
		"empty":     {},
		"encrypted": {Content: "x", Tags: [][]string{{"encrypted"}}},
		"sealed":    {Content: "x", Tags: [][]string{{"commitment", "y"}}},
		"protected": {Content: "x", Tags: [][]string{{"-"}}},
		"message":   {Content: "x", Kind: 1059},
	} {
		if text, err := receipts.InputText(ev); !errors.Is(err, receipts.ErrInvalid) {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	if text, err := receipts.InputText(receipts.Event{Content: strings.Repeat("x", receipts.MaxInputBytes)}); err != nil || len(text) != receipts.MaxInputBytes {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestInlineLeavesOthersAsTheyAre(t *testing.T) {
	good := inputOf(person("provider"), nil)
	tags := [][]string{{"param", "schema", "x"}, {"i", earlier, "job"}, {"i", "text", "text"}, {"i", "https://example.com", "url"}}
	got, err := receipts.Inline(tags, xOnly(person("provider")), []receipts.Event{good})
	if err != nil || got[1][1] != requestDoc || got[1][2] != "text" || got[2][1] != "text" || got[3][2] != "url" || tags[1][1] != earlier {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := receipts.Inline(tags, xOnly(person("provider")), nil); !errors.Is(err, receipts.ErrInvalid) {
		t.Errorf("without the event: %v", err)
	}
}

func FuzzParseInputs(f *testing.F) {
	f.Add(receipts.WriteInputs([]receipts.Event{inputOf(person("provider"), nil)}))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		events, err := receipts.ParseInputs(doc)
		if err == nil && string(receipts.WriteInputs(events)) != string(doc) {
			t.Errorf("read %q, and written it is another", doc)
		}
	})
}
