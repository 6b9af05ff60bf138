package message

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzParse: what Parse accepts, the published schema accepts too, and it can
// be written and read again with the same evidence.
func FuzzParse(f *testing.F) {
	for _, name := range []string{"query", "response", "error", "gap"} {
		f.Add([]byte(example(f, name)))
		f.Add([]byte(printed(f, name)))
	}
	schemas := published(f)
	f.Fuzz(func(t *testing.T, doc []byte) {
		peek(doc)
		m, err := Parse(doc)
		if err != nil {
			if e := FromError(err); e.Kind != KindInvalid && e.Kind != KindFabrication {
				t.Errorf("refused as %s", e.Kind)
			}
			return
		}
		if err := schemas[m.Type].Validate(doc); err != nil {
			t.Fatalf("the schema refuses what Parse accepts: %v\n%s", err, doc)
		}
		out, err := Encode(m)
		if err != nil {
			t.Fatalf("cannot be written again: %v\n%s", err, doc)
		}
		again, err := Parse(out)
		if err != nil || !bytes.Equal(again.Evidence.Bytes(), m.Evidence.Bytes()) || again.ID != m.ID {
			t.Fatalf("became %s, %v", out, err)
		}
	})
}

// FuzzMember puts any JSON value anywhere into a message: what is accepted must
// be so by the schema too.
func FuzzMember(f *testing.F) {
	paths := []string{
		"id", "timestamp", "version", "from", "from.agentId", "to.instanceId", "replyTo", "type", "payload", "payload.content",
		"payload.format", "payload.language", "payload.encoding", "context", "context.locale", "context.timezone", "evidence",
		"evidence.sources", "evidence.confidence", "evidence.citations", "evidence.provenance", "priority", "ttl", "retryCount", "other",
	}
	for i, value := range []string{
		`"2025-01-29T10:30:00+14:00"`, "3e1", "null", `[{"id":"a","name":"b","url":"http://[::1%25eth0]/"}]`, `"0001-01-01T00:00:00Z"`,
		`{"agentId":"a","instanceId":"b"}`, `[{"entity":"a","wasGeneratedBy":"b","generatedAtTime":"2025-12-31T23:59:60Z"}]`, `"é"`,
		`{"content":{"gap":{"gapType":"a","indicator":"b"}},"format":"json","language":"ar","encoding":"utf-8"}`,
	} {
		for name := range 4 {
			f.Add(uint8(name), uint8(i*3), value)
			f.Add(uint8(name), uint8(i*3+1), value)
		}
	}
	names := []string{"query", "response", "error", "gap"}
	var docs []string
	for _, name := range names {
		docs = append(docs, example(f, name))
	}
	schemas := published(f)
	f.Fuzz(func(t *testing.T, doc, path uint8, value string) {
		if !json.Valid([]byte(value)) {
			return
		}
		changed := edit(t, docs[int(doc)%len(docs)], paths[int(path)%len(paths)], raw(value))
		m, err := Parse([]byte(changed))
		if err != nil {
			return
		}
		if err := schemas[m.Type].Validate([]byte(changed)); err != nil {
			t.Fatalf("the schema refuses what Parse accepts: %v\n%s", err, changed)
		}
		if _, err := Encode(m); err != nil {
			t.Fatalf("cannot be written again: %v\n%s", err, changed)
		}
	})
}
