package nip01

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/nbd-wtf/go-nostr"
)

var (
	hexA = strings.Repeat("a", 64)
	hexB = strings.Repeat("b", 128)
)

// object is an event object with one field replaced.
func object(field, value string) string {
	fields := []string{
		"id", `"` + hexA + `"`, "pubkey", `"` + hexA + `"`, "created_at", "1", "kind", "1",
		"tags", `[]`, "content", `""`, "sig", `"` + hexB + `"`,
	}
	var parts []string
	for i := 0; i < len(fields); i += 2 {
		v := fields[i+1]
		if fields[i] == field {
			v = value
		}
		if v != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", fields[i], v))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func TestParseEventRefuses(t *testing.T) {
	if _, err := ParseEvent([]byte(object("", "")), Limits{}); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		doc  string
		want error
	}{
		"empty":             {"", ErrSyntax},
		"cut":               {object("", "")[:50], ErrSyntax},
		"trailing":          {object("", "") + "{}", ErrSyntax},
		"array":             {"[]", ErrShape},
		"duplicate field":   {strings.Replace(object("", ""), `"kind":1`, `"kind":1,"kind":1`, 1), ErrSyntax},
		"missing field":     {object("sig", ""), ErrShape},
		"null content":      {object("content", "null"), ErrShape},
		"bad UTF-8":         {object("content", "\"\xff\""), ErrSyntax},
		"lone surrogate":    {object("content", `"\ud800"`), ErrSyntax},
		"upper-case id":     {object("id", `"`+strings.ToUpper(hexA)+`"`), ErrShape},
		"short id":          {object("id", `"aa"`), ErrShape},
		"kind too large":    {object("kind", "65536"), ErrShape},
		"negative kind":     {object("kind", "-1"), ErrShape},
		"kind as float":     {object("kind", "1.0"), ErrShape},
		"kind as exponent":  {object("kind", "1e2"), ErrShape},
		"kind as string":    {object("kind", `"1"`), ErrShape},
		"time beyond 2^53":  {object("created_at", "9007199254740992"), ErrShape},
		"time beyond int64": {object("created_at", "99999999999999999999"), ErrShape},
		"tags no list":      {object("tags", `{}`), ErrShape},
		"empty tag":         {object("tags", `[[]]`), ErrShape},
		"number in tag":     {object("tags", `[["e",1]]`), ErrShape},
		"null tag":          {object("tags", `[null]`), ErrShape},
		"nested tag":        {object("tags", `[["e",["x"]]]`), ErrShape},
		"three tags":        {object("tags", `[["a"],["b"],["c"]]`), ErrTooMany},
		"deep unknown":      {strings.Replace(object("", ""), "{", `{"x":`+strings.Repeat("[", 9)+strings.Repeat("]", 9)+",", 1), ErrDepth},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := ParseEvent([]byte(c.doc), Limits{MaxTags: 2}); !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
		})
	}
}

func TestParseEventSkipsUnknownFields(t *testing.T) {
	doc := strings.Replace(object("", ""), "{", `{"seen_on":["x",{"y":1}],`, 1)
	if _, err := ParseEvent([]byte(doc), Limits{}); err != nil {
		t.Fatal(err)
	}
}

func TestParseClient(t *testing.T) {
	since := nostr.Timestamp(7)
	event, err := ParseEvent([]byte(object("", "")), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		doc  string
		want ClientMessage
		err  error
	}{
		"event": {`["EVENT",` + object("", "") + `]`, ClientMessage{Label: "EVENT", Event: event}, nil},
		"req": {`["REQ","s",{"ids":["` + hexA + `"],"kinds":[1,2],"#t":["x"],"since":7,"limit":0}, {}]`, ClientMessage{
			Label: "REQ", SubID: "s",
			Filters: []nostr.Filter{{IDs: []string{hexA}, Kinds: []int{1, 2}, Tags: nostr.TagMap{"t": {"x"}}, Since: &since, LimitZero: true}, {}},
		}, nil},
		"close":           {`["CLOSE","s"]`, ClientMessage{Label: "CLOSE", SubID: "s"}, nil},
		"no filter":       {`["REQ","s"]`, ClientMessage{Label: "REQ", SubID: "s"}, ErrShape},
		"unknown filter":  {`["REQ","s",{"search":"x"}]`, ClientMessage{Label: "REQ", SubID: "s"}, ErrUnsupported},
		"two-letter tag":  {`["REQ","s",{"#ab":["x"]}]`, ClientMessage{Label: "REQ", SubID: "s"}, ErrUnsupported},
		"prefix of id":    {`["REQ","s",{"ids":["aa"]}]`, ClientMessage{Label: "REQ", SubID: "s"}, ErrShape},
		"p not hex":       {`["REQ","s",{"#p":["x"]}]`, ClientMessage{Label: "REQ", SubID: "s"}, ErrShape},
		"negative limit":  {`["REQ","s",{"limit":-1}]`, ClientMessage{Label: "REQ", SubID: "s"}, ErrShape},
		"many filters":    {`["REQ","s",{},{},{}]`, ClientMessage{Label: "REQ", SubID: "s"}, ErrTooMany},
		"many values":     {`["REQ","s",{"kinds":[1,2,3,4]}]`, ClientMessage{Label: "REQ", SubID: "s"}, ErrTooMany},
		"empty sub id":    {`["CLOSE",""]`, ClientMessage{Label: "CLOSE"}, ErrShape},
		"long sub id":     {`["CLOSE","` + strings.Repeat("x", 65) + `"]`, ClientMessage{Label: "CLOSE", SubID: strings.Repeat("x", 65)}, ErrShape},
		"extra element":   {`["CLOSE","s","t"]`, ClientMessage{Label: "CLOSE", SubID: "s"}, ErrShape},
		"after the end":   {`["CLOSE","s"] x`, ClientMessage{Label: "CLOSE", SubID: "s"}, ErrSyntax},
		"unknown label":   {`["COUNTS","s",{}]`, ClientMessage{}, ErrUnsupported},
		"negentropy":      {`["NEG-OPEN","s",{}]`, ClientMessage{Label: LabelNegOpen, SubID: "s"}, ErrUnsupported},
		"count":           {`["COUNT","s",{}]`, ClientMessage{Label: "COUNT", SubID: "s", Filters: []nostr.Filter{{}}}, nil},
		"cut off":         {`["REQ","s",{"authors":["aa`, ClientMessage{Label: "REQ", SubID: "s"}, ErrSyntax},
		"bad auth":        {`["AUTH",` + object("kind", "-1") + `]`, ClientMessage{Label: "AUTH", Event: nostr.Event{ID: hexA}}, ErrShape},
		"no array":        {`{}`, ClientMessage{}, ErrShape},
		"bad event":       {`["EVENT",` + object("kind", "-1") + `]`, ClientMessage{Label: "EVENT", Event: nostr.Event{ID: hexA}}, ErrShape},
		"event, bad id":   {`["EVENT",` + object("id", "1") + `]`, ClientMessage{Label: "EVENT"}, ErrShape},
		"event, no event": {`["EVENT"]`, ClientMessage{Label: "EVENT"}, ErrShape},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseClient([]byte(c.doc), Limits{MaxFilters: 2, MaxFilterValues: 3})
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseRelay(t *testing.T) {
	event, err := ParseEvent([]byte(object("", "")), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		doc  string
		want RelayMessage
		err  error
	}{
		"event":         {`["EVENT","s",` + object("", "") + `]`, RelayMessage{Label: "EVENT", SubID: "s", Event: event}, nil},
		"ok":            {`["OK","` + hexA + `",true,""]`, RelayMessage{Label: "OK", EventID: hexA, Accepted: true}, nil},
		"ok, no text":   {`["OK","` + hexA + `",false]`, RelayMessage{Label: "OK", EventID: hexA}, nil},
		"eose":          {`["EOSE","s"]`, RelayMessage{Label: "EOSE", SubID: "s"}, nil},
		"closed":        {`["CLOSED","s","error: x"]`, RelayMessage{Label: "CLOSED", SubID: "s", Text: "error: x"}, nil},
		"notice":        {`["NOTICE","a\u001b[31m\nb\u202ec"]`, RelayMessage{Label: "NOTICE", Text: "a [31m b c"}, nil},
		"auth":          {`["AUTH","challenge"]`, RelayMessage{Label: "AUTH", Text: "challenge"}, nil},
		"unknown":       {`["COUNT","s",{"count":1}]`, RelayMessage{}, ErrUnsupported},
		"ok as string":  {`["OK","` + hexA + `","true",""]`, RelayMessage{}, ErrShape},
		"event, no sub": {`["EVENT",` + object("", "") + `]`, RelayMessage{}, ErrShape},
		"number":        {`17`, RelayMessage{}, ErrShape},
		"deep":          {strings.Repeat("[", 100), RelayMessage{}, ErrDepth},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseRelay([]byte(c.doc), Limits{})
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCleanCutsAtRune(t *testing.T) {
	got := Clean(strings.Repeat("é", maxText))
	if len(got) > maxText || !utf8.ValidString(got) || strings.Contains(got, " ") {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-4:])
	}
}

// FuzzParseRelay parses what a hostile relay may send: whatever is accepted
// must survive being written and read again.
func FuzzParseRelay(f *testing.F) {
	for _, doc := range published {
		f.Add([]byte(`["EVENT","s",` + doc + `]`))
	}
	f.Add([]byte(`["OK","` + hexA + `",false,"rate-limited: x"]`))
	f.Add([]byte(`["CLOSED","s","error: \ud83d\ude00"]`))
	f.Add([]byte(`["NOTICE","\u0000"]`))
	f.Add([]byte(`["EOSE","s"]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, err := ParseRelay(doc, Limits{})
		if err != nil || m.Label != LabelEvent {
			return
		}
		again, err := ParseRelay(AppendDelivery(nil, m.SubID, Marshal(&m.Event)), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzParseClient does the same for the messages of clients.
func FuzzParseClient(f *testing.F) {
	for _, doc := range published {
		f.Add([]byte(`["EVENT",` + doc + `]`))
	}
	f.Add([]byte(`["REQ","s",{"ids":["` + hexA + `"],"authors":[],"kinds":[0,65535],"#t":["\u0000"],"since":0,"until":9,"limit":3}]`))
	f.Add([]byte(`["REQ","s",{"#e":["` + hexA + `"],"limit":0},{}]`))
	f.Add([]byte(`["CLOSE","s"]`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		m, err := ParseClient(doc, Limits{})
		if err != nil {
			return
		}
		var out []byte
		switch m.Label {
		case LabelEvent:
			out = AppendEventMessage(nil, &m.Event)
		case LabelReq:
			out = AppendReq(nil, m.SubID, m.Filters)
		case LabelClose:
			out = AppendLabelled(nil, LabelClose, m.SubID)
		}
		again, err := ParseClient(out, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		if diff := cmp.Diff(m, again); diff != "" {
			t.Fatal(diff)
		}
	})
}
