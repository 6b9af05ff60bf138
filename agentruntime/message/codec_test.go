package message

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func TestExamplesAsPrintedAreRefused(t *testing.T) {
	requirements.Covers(t, "K-17")
	for _, name := range []string{"query", "response", "error", "gap"} {
		wantRefused(t, printed(t, name), ValidationFailed, "id")
		// Without the prefix the version is still 1.
		wantRefused(t, strings.ReplaceAll(printed(t, name), "msg-", ""), ValidationFailed, "id")
		parse(t, example(t, name))
	}
}

func TestQueryExample(t *testing.T) {
	requirements.Covers(t, "YE-T.1", "YE-S.4")
	m := parse(t, example(t, "query"))
	q, err := ContentOf[Query](m)
	if err != nil || q.Question != "What is Yemen's current GDP?" || !strings.Contains(string(q.Parameters), `"regime": "national"`) {
		t.Errorf("query is %+v, %v", q, err)
	}
	if m.From != (Agent{"one-brain", "ob-001"}) || m.To != (Agent{"macro-analyst", "ma-001"}) {
		t.Errorf("from %v to %v", m.From, m.To)
	}
	if len(m.Evidence.chain.Sources) > 0 || m.Evidence.chain.Confidence != 0 {
		t.Errorf("evidence is %+v", m.Evidence.chain)
	}
	want := Context{SessionID: "sess-abc123", UserID: "user-456", RequestID: "req-789", Locale: "en-US", Timezone: "UTC"}
	if m.Context != want || m.Priority != PriorityNormal || m.TTL != 30 || m.RetryCount != 0 {
		t.Errorf("message is %+v", m)
	}
}

func TestResponseExample(t *testing.T) {
	requirements.Covers(t, "YE-T.2", "YE-S.9", "YE-S.13", "YE-S.14", "YE-S.15")
	m := parse(t, example(t, "response"))
	if m.ReplyTo != parse(t, example(t, "query")).ID {
		t.Errorf("replies to %s", m.ReplyTo)
	}
	r, err := ContentOf[Response](m)
	if err != nil || !strings.HasPrefix(r.Answer, "Yemen's GDP") || !strings.Contains(string(r.Data), "17240000000") {
		t.Errorf("response is %+v, %v", r, err)
	}
	c := m.Evidence.chain
	url := "https://data.worldbank.org"
	if len(c.Sources) != 1 || c.Sources[0] != (Source{"src-wb-001", "World Bank", "international_organization", url + "/indicator/NY.GDP.MKTP.CD?locations=YE"}) {
		t.Errorf("sources are %+v", c.Sources)
	}
	if len(c.Citations) != 1 || c.Citations[0] != (Citation{"GDP (current US$) - Yemen, Rep.", "World Bank WDI", "2024", url}) {
		t.Errorf("citations are %+v", c.Citations)
	}
	want := Provenance{Entity: "GDP_YEM_2024", WasGeneratedBy: "macro-analyst", WasDerivedFrom: "world_bank_wdi", GeneratedAtTime: "2025-01-29T10:30:05Z"}
	if len(c.Provenance) != 1 || c.Provenance[0] != want || c.Confidence != 85 {
		t.Errorf("chain is %+v", c)
	}
}

func TestErrorExample(t *testing.T) {
	requirements.Covers(t, "YE-T.3")
	m := parse(t, example(t, "error"))
	f, err := ContentOf[Failure](m)
	if err != nil || f.Code != DataUnavailable || !f.Recoverable || f.Suggestion != "Try alternative source or earlier year" ||
		f.Message != "World Bank API returned 404 for requested indicator" || !strings.Contains(string(f.Details), "NY.GDP.MKTP.CD") {
		t.Errorf("error is %+v, %v", f, err)
	}
	if m.Priority != PriorityHigh {
		t.Errorf("priority is %s", m.Priority)
	}
}

func TestGapExample(t *testing.T) {
	requirements.Covers(t, "YE-T.4", "K-22")
	m := parse(t, example(t, "gap"))
	g, err := ContentOf[Gap](m)
	if err != nil || g.GapType != "missing_data" || g.Indicator != "Unemployment Rate" || g.Geography != "Yemen" || g.Period != "Q2 2024" ||
		g.Priority != "medium" || len(g.SuggestedSources) != 2 || g.LastAvailable.Period != "Q1 2024" ||
		string(g.LastAvailable.Value) != "13.4" || g.LastAvailable.Source != "ILO" {
		t.Errorf("gap is %+v, %v", g, err)
	}
	if m.TTL != 3600 || m.Priority != PriorityLow {
		t.Errorf("ttl %d, priority %s", m.TTL, m.Priority)
	}
	wantRefused(t, edit(t, example(t, "gap"), "priority", "medium"), ValidationFailed, "priority")
}

func TestEachRequiredMemberIsMissed(t *testing.T) {
	requirements.Covers(t, "YE-V1")
	for _, name := range []string{"id", "timestamp", "version", "from", "to", "type", "payload"} {
		wantRefused(t, edit(t, example(t, "query"), name, nil), ValidationFailed, name)
	}
}

func TestBadMembersAreRefused(t *testing.T) {
	requirements.Covers(t, "YE-S.1", "YE-S.2", "YE-S.3", "YE-S.5", "YE-S.6", "YE-S.7", "YE-S.8", "YE-S.10", "YE-V2", "YE-V3", "K-16")
	query, response := example(t, "query"), example(t, "response")
	for _, c := range []struct {
		doc, path string
		value     any
	}{
		{query, "id", "123e4567-e89b-12d3-a456-426614174000"}, // version 1
		{query, "id", "123e4567-e89b-42d3-c456-426614174000"}, // not the variant
		{query, "id", "{123e4567-e89b-42d3-a456-426614174000}"},
		{query, "id", "something"},
		{query, "id", 7},
		{query, "timestamp", "2025-01-29T10:30:00"},
		{query, "timestamp", "2025-01-29"},
		{query, "timestamp", "2025-02-30T10:30:00Z"},
		{query, "timestamp", "2025-01-29T24:30:00Z"},
		{query, "timestamp", "2025-01-29t10:30:00z"},
		{query, "timestamp", 1738146600},
		{query, "version", "1.0.1"},
		{query, "type", "gossip"},
		{query, "type", raw("null")},
		{query, "from", "one-brain"},
		{query, "from.agentId", ""},
		{query, "from.agentId", "one brain"},
		{query, "to.instanceId", "a\nb"},
		{query, "payload.format", "xml"},
		{query, "payload.language", "fr"},
		{query, "payload.encoding", "latin1"},
		{query, "payload.content", raw("null")},
		{query, "payload.content", "a question, but in JSON"},
		{query, "replyTo", "msg-1"},
		{query, "replyTo", raw("null")},
		{query, "context.sessionId", nil},
		{query, "context.requestId", nil},
		{query, "context.locale", nil},
		{query, "context.timezone", nil},
		{query, "context.timezone", "../etc/passwd"},
		{query, "priority", "urgent"},
		{query, "ttl", 0},
		{query, "ttl", 1.5},
		{query, "ttl", maxTTL + 1},
		{query, "retryCount", -1},
		{response, "replyTo", nil},
		{response, "evidence.sources", raw("null")},
		{response, "evidence.provenance", nil},
	} {
		doc := edit(t, c.doc, c.path, c.value)
		wantRefused(t, doc, ValidationFailed, c.path)
	}
	wantRefused(t, edit(t, query, "extra", 1), ValidationFailed, "")
	wantRefused(t, edit(t, query, "from.extra", 1), ValidationFailed, "from")
}

func TestDocumentsThatAreNoMessage(t *testing.T) {
	query := example(t, "query")
	for name, doc := range map[string]string{
		"empty":         "",
		"array":         "[]",
		"null":          "null",
		"two values":    query + query,
		"duplicate key": `{"id":"a",` + query[1:],
		"bad UTF-8":     strings.Replace(query, "Yemen", "\xff", 1),
		"too long":      strings.Replace(query, "Yemen", strings.Repeat("y", maxBytes), 1),
		"deep":          strings.Replace(query, `"any"`, strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000), 1),
	} {
		t.Run(name, func(t *testing.T) { wantRefused(t, doc, ValidationFailed, "") })
	}
}

func TestTimesKeepTheirInstant(t *testing.T) {
	for _, text := range []string{"2025-01-29T10:30:00.5Z", "2025-01-29T13:30:00.500+03:00", "2025-01-29T05:00:00.5-05:30"} {
		m := parse(t, edit(t, example(t, "query"), "timestamp", text))
		doc, err := Encode(m)
		if err != nil || !bytes.Contains(doc, []byte(`"timestamp":"2025-01-29T10:30:00.500Z"`)) {
			t.Errorf("%s became %s, %v", text, doc, err)
		}
	}
}

func TestWhatMayBeAbsentHasDefaults(t *testing.T) {
	requirements.Covers(t, "K-18", "YE-S.11", "YE-S.12")
	doc := example(t, "query")
	for _, name := range []string{"context", "evidence", "priority", "ttl", "retryCount"} {
		doc = edit(t, doc, name, nil)
	}
	m := parse(t, doc)
	if string(m.Evidence.Bytes()) != emptyChain || m.Priority != PriorityNormal || m.TTL != 30 || m.RetryCount != 0 {
		t.Errorf("message is %+v", m)
	}
	if want := (Context{SessionID: m.ID, RequestID: m.ID, Locale: "en", Timezone: "UTC"}); m.Context != want {
		t.Errorf("context is %+v", m.Context)
	}
	out, err := Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	if err := json.Unmarshal(out, &members); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"context", "evidence", "priority", "ttl", "retryCount"} {
		if _, present := members[name]; !present {
			t.Errorf("%s is not written", name)
		}
	}
}

func TestEncodeRoundTrip(t *testing.T) {
	for _, name := range []string{"query", "response", "error", "gap"} {
		m := parse(t, example(t, name))
		doc, err := Encode(m)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Encode(parse(t, string(doc)))
		if err != nil || !bytes.Equal(doc, again) {
			t.Errorf("%s:\n%s\nbecame\n%s, %v", name, doc, again, err)
		}
	}
}

func TestEncodeRefusesWhatParseRefuses(t *testing.T) {
	m := parse(t, example(t, "response"))
	m.Evidence = Evidence{}
	_, err := Encode(m)
	wantError(t, err, FabricationDetected, "evidence.sources")
	m.ID = "x"
	_, err = Encode(m)
	wantError(t, err, ValidationFailed, "id")
}
