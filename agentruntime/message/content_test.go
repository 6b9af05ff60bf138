package message

import (
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

const (
	someID  = "9b2f6d7e-4a51-4c83-8f0e-2d6a1b3c5e7f"
	otherID = "0d1e2f3a-4b5c-4d6e-9f70-8192a3b4c5d6"
)

// withContent is the query example as another type with this content.
func withContent(t *testing.T, typ Type, content string) string {
	t.Helper()
	doc := edit(t, edit(t, example(t, "query"), "type", typ), "payload.content", raw(content))
	if typ == TypeEvidence {
		doc = edit(t, doc, "evidence", raw(`{"sources":[{"id":"s1","name":"S"}],"confidence":70,"citations":[],"provenance":[]}`))
	}
	return doc
}

func TestContentsOfOurOwn(t *testing.T) {
	requirements.Covers(t, "YE-T.5")
	for _, c := range []struct {
		typ         Type
		good        string
		field, left string // what is refused, and without which member
	}{
		{TypeCommand, `{"command":"refresh","arguments":{"all":true}}`, "command", `{"arguments":{}}`},
		{TypeCommand, `{"command":"refresh"}`, "arguments", `{"command":"refresh","arguments":[]}`},
		{TypeEvent, `{"event":"updated","data":[1]}`, "event", `{"data":1}`},
		{TypeValidation, `{"subject":"` + someID + `"}`, "subject", `{}`},
		{TypeValidation, `{"subject":"` + someID + `","coverage":96,"verdict":"PASS"}`, "subject", `{"subject":"x"}`},
		{TypeEvidence, `{"claim":"GDP fell","subject":"` + someID + `"}`, "claim", `{"subject":"` + someID + `"}`},
		{
			TypeCorrection, `{"subject":"` + someID + `","field":"/payload/content/data","replacement":null,"reason":"typing error"}`,
			"replacement", `{"subject":"` + someID + `","field":"/payload/content/data","reason":"typing error"}`,
		},
		{
			TypeCorrection, `{"subject":"` + someID + `","field":"/a","replacement":1,"reason":"r"}`,
			"field", `{"subject":"` + someID + `","field":"a","replacement":1,"reason":"r"}`,
		},
	} {
		if m := parse(t, withContent(t, c.typ, c.good)); m.Type != c.typ {
			t.Errorf("%s is a %s", c.good, m.Type)
		}
		wantRefused(t, withContent(t, c.typ, c.left), ValidationFailed, "payload.content."+c.field)
	}
	wantRefused(t, edit(t, withContent(t, TypeEvidence, `{"claim":"c"}`), "evidence.sources", []any{}), ValidationFailed, "evidence.sources")
}

func TestContentsDecode(t *testing.T) {
	command, err := ContentOf[Command](parse(t, withContent(t, TypeCommand, `{"command":"refresh","arguments":{"all":true}}`)))
	if err != nil || command.Command != "refresh" || string(command.Arguments) != `{"all":true}` {
		t.Errorf("%+v, %v", command, err)
	}
	event, err := ContentOf[event](parse(t, withContent(t, TypeEvent, `{"event":"updated","data":[1]}`)))
	if err != nil || event.Event != "updated" || string(event.Data) != "[1]" {
		t.Errorf("%+v, %v", event, err)
	}
	submission, err := ContentOf[submission](parse(t, withContent(t, TypeEvidence, `{"claim":"c"}`)))
	if err != nil || submission.Claim != "c" {
		t.Errorf("%+v, %v", submission, err)
	}
	correction, err := ContentOf[correction](parse(t, withContent(t, TypeCorrection, `{"subject":"`+someID+`","field":"/a","replacement":1,"reason":"r"}`)))
	if err != nil || correction.Subject != someID || correction.Field != "/a" || correction.Reason != "r" || string(correction.Replacement) != "1" {
		t.Errorf("%+v, %v", correction, err)
	}
	_, err = ContentOf[Gap](parse(t, example(t, "query")))
	wantError(t, err, ValidationFailed, "type")
}

func TestTextIsAQuestionOrAnAnswer(t *testing.T) {
	for _, format := range []Format{FormatText, FormatMarkdown} {
		text := edit(t, edit(t, example(t, "query"), "payload.format", format), "payload.content", "What \"is\"?")
		if q, err := ContentOf[Query](parse(t, text)); err != nil || q.Question != `What "is"?` {
			t.Errorf("question is %+v, %v", q, err)
		}
		wantRefused(t, edit(t, text, "payload.content", map[string]any{"question": "q"}), ValidationFailed, "payload.content")
		wantRefused(t, edit(t, text, "type", "command"), ValidationFailed, "payload.format")
	}
	answer := edit(t, edit(t, example(t, "response"), "payload.format", "text"), "payload.content", "17")
	if r, err := ContentOf[Response](parse(t, answer)); err != nil || r.Answer != "17" {
		t.Errorf("answer is %+v, %v", r, err)
	}
}

func TestRecoverableIsTheTables(t *testing.T) {
	requirements.Covers(t, "YE-E.1", "YE-E.2", "YE-E.3", "YE-E.4", "YE-E.5", "YE-E.6", "YE-E.7", "YE-E.8")
	want := map[Code]bool{
		"DATA_UNAVAILABLE": true, "SOURCE_ERROR": true, "VALIDATION_FAILED": false, "TIMEOUT": true,
		"FABRICATION_DETECTED": false, "SAFETY_VIOLATION": false, "UNAUTHORIZED": false,
	}
	if len(codes()) != len(want) {
		t.Fatalf("there are codes %v", codes())
	}
	for code, recoverable := range want {
		doc := edit(t, edit(t, example(t, "error"), "payload.content.code", code), "payload.content.recoverable", recoverable)
		parse(t, doc)
		wantRefused(t, edit(t, doc, "payload.content.recoverable", !recoverable), ValidationFailed, "payload.content.recoverable")
	}
	wantRefused(t, edit(t, example(t, "error"), "payload.content.code", "OUT_OF_COFFEE"), ValidationFailed, "payload.content.code")
}

func TestNineTypes(t *testing.T) {
	requirements.Covers(t, "YE-S.6")
	if len(Types()) != 9 {
		t.Fatalf("types are %v", Types())
	}
	for _, typ := range Types() {
		if got, ok := typeOfTag(typ.Tag()); !ok || got != typ {
			t.Errorf("tag %s is %s", typ.Tag(), got)
		}
	}
	for _, tag := range []string{"query", "ye.", "ye.gossip", "YE.query", "ye.query.x"} {
		if _, ok := typeOfTag(tag); ok {
			t.Errorf("%s is a tag", tag)
		}
	}
}

func TestVerdictIsTheCoverages(t *testing.T) {
	requirements.Covers(t, "YEX-5")
	for _, c := range []struct {
		coverage float64
		want     verdict
	}{{100, pass}, {95, pass}, {94.9, passWarn}, {85, passWarn}, {84.9, fail}, {0, fail}} {
		if got := judge(c.coverage); got != c.want {
			t.Errorf("coverage %v is %s, want %s", c.coverage, got, c.want)
		}
	}
	wantRefused(t, withContent(t, TypeValidation, `{"subject":"`+someID+`","coverage":84,"verdict":"PASS"}`), ValidationFailed, "payload.content.verdict")
	wantRefused(t, withContent(t, TypeValidation, `{"subject":"`+someID+`","verdict":"PASS"}`), ValidationFailed, "payload.content.verdict")
	contradiction := func(a, b string) string {
		return withContent(t, TypeValidation, `{"subject":"`+someID+`","contradictions":[{"what":"GDP","values":[{"source":"a","value":`+a+`},{"source":"b","value":`+b+`}]}]}`)
	}
	parse(t, contradiction("100", "89.9"))
	parse(t, contradiction("-1", "1"))
	wantRefused(t, contradiction("100", "90"), ValidationFailed, "payload.content.contradictions.0")
	wantRefused(t, contradiction("0", "0"), ValidationFailed, "payload.content.contradictions.0")
}

func TestLawsAndBands(t *testing.T) {
	requirements.Covers(t, "YEX-2", "YEX-3")
	if laws := laws(); len(laws) != 13 || laws[0] != "R0" || laws[12] != "R12" {
		t.Errorf("laws are %v", laws)
	}
	finding := func(law string) string {
		return withContent(t, TypeValidation, `{"subject":"`+someID+`","findings":[{"law":"`+law+`","severity":"major","message":"m"}]}`)
	}
	for _, law := range laws() {
		parse(t, finding(string(law)))
	}
	wantRefused(t, finding("R13"), ValidationFailed, "payload.content.findings.0.law")
	for confidence, want := range map[int]band{100: high, 90: high, 89: medium, 70: medium, 69: low, 0: low} {
		if got := bandOf(confidence); got != want {
			t.Errorf("confidence %d is %s, want %s", confidence, got, want)
		}
	}
}
