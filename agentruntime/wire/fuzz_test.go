package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/frame"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// nasty are payloads of a hostile or broken peer: not JSON, fields missing or
// of a wrong type, invalid UTF-8, values too large or too deep.
func nasty() []string {
	const head = `"v":1,"id":"m","ts":"2026-01-16T12:00:00Z","request_id":"r",`
	call := func(payload string) string { return `{` + head + `"type":"core.tool.call","payload":` + payload + `}` }
	long := strings.Repeat("x", 5000)
	docs := []string{
		"", "{", "}", "[]", "null", "42", `"{}"`, "hello", "{]}", "{}{}", "{}\x00", "\xef\xbb\xbf{}", "{'a':1}", `{"a":1,}`, `{"a":NaN}`,
		"{\"a\":\"\xff\"}", "{\"a\":\"\xed\xa0\x80\"}", `{"a":"\ud800"}`, `{"a":1,"a":2}`, `{"v":1,"V":1}`, "{\"a\":\"\x01\"}",
		`{}`, `{"type":"core.ping"}`, `{` + head + `"type":7,"payload":{}}`, `{` + head + `"type":"` + long + `","payload":{}}`,
		`{` + head + `"type":"core.","payload":{}}`, `{` + head + `"type":"core.ping","payload":[]}`, `{` + head + `"type":"core.ping","payload":null}`,
		`{` + head + `"type":"core.error","error":"bad","payload":{}}`, `{` + head + `"type":"core.error","error":{"code":"X"},"payload":{}}`,
		`{` + head + `"type":"core.ping","actor":{"type":"root","id":"u"},"payload":{}}`,
		`{"v":1e400,"type":"core.ping","id":"m","ts":"x","payload":{}}`, `{"v":1,"type":"core.ping","id":"` + long + `","ts":"x","payload":{}}`,
		call(`{}`), call(`{"call_id":7}`), call(`{"call_id":"` + long + `","tool_id":"a/b","input":{}}`),
		call(`{"call_id":"c","tool_id":"a/b/c","input":{}}`), call(`{"call_id":"c","tool_id":"a/b","input":[]}`),
		call(`{"call_id":"c","tool_id":"a/b","input":{},"timeout_ms":-1}`), call(`{"call_id":"c","tool_id":"a/b","input":{},"timeout_ms":1e30}`),
		call(`{"call_id":"c","tool_id":"a/b","input":` + strings.Repeat(`{"a":`, 12000) + "1" + strings.Repeat("}", 12000) + `}`),
		call(`{"call_id":"c","tool_id":"a/b","input":{"a":[0` + strings.Repeat(",0", 5000) + `]}}`),
		`{` + head + `"type":"agent.tool.stream","payload":{"call_id":"c","seq":0,"channel":"stdout","data":{"text":"x"}}}`,
		`{` + head + `"type":"agent.tool.stream","payload":{"call_id":"c","seq":1,"channel":"partial_result","data":{"json":[]}}}`,
		`{` + head + `"type":"agent.tool.result","payload":{"call_id":"c","status":"done"}}`,
		`{` + head + `"type":"agent.tools.register","payload":{"tools":"all"}}`,
		`{` + head + `"type":"agent.tools.register","payload":{"tools":[` + strings.TrimSuffix(strings.Repeat(`{},`, 300), ",") + `]}}`,
	}
	for _, field := range []string{`"v":1,`, `"id":"m",`, `"ts":"2026-01-16T12:00:00Z",`} {
		docs = append(docs, `{`+strings.Replace(head, field, "", 1)+`"type":"core.ping","payload":{}}`)
	}
	return append(docs, `{`+head+`"type":"core.ping"}`, `{`+head+`"payload":{}}`)
}

func TestNastyPayloadsAreRefused(t *testing.T) {
	requirements.Covers(t, "OSX-17")
	for _, doc := range nasty() {
		for _, from := range []Side{Core, Agent} {
			if frame.Check([]byte(doc)) != nil {
				continue // refused before it is decoded
			}
			m, err := Decode([]byte(doc), from)
			if err == nil && !strings.Contains(doc, `"a":[0`) {
				t.Errorf("%.100s: %s", doc, m.Type())
			}
		}
	}
}

// FuzzStream feeds raw bytes as one end's stream. Whatever is refused can be
// answered: the answer is a message that the other end accepts, and no more of
// the refused message is in it than its ids.
func FuzzStream(f *testing.F) {
	for _, doc := range nasty() {
		if len(doc) > 6<<10 {
			continue // the fuzzer would spend its time on making it smaller
		}
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(doc))), doc...), true)
	}
	for _, m := range samples() {
		f.Add(append(binary.BigEndian.AppendUint32(nil, uint32(len(encode(f, m)))), encode(f, m)...), m.Type().From() == Core)
	}
	f.Add([]byte{0, 0x40, 0, 1}, false)
	f.Fuzz(func(t *testing.T, stream []byte, core bool) {
		from, answering, answer := Agent, Core, Payload(&CoreError{})
		if core {
			from, answering, answer = Core, Agent, &AgentError{}
		}
		in := frame.NewReader(bytes.NewReader(stream), 0)
		for {
			payload, err := in.Next()
			if err != nil {
				return
			}
			_, err = Decode(payload, from)
			var refused *DecodeError
			if err == nil || !errors.As(err, &refused) {
				if err != nil {
					t.Fatalf("untyped error %v", err)
				}
				continue
			}
			if err := canAnswer(refused, answering, answer); err != nil {
				t.Fatalf("%v: %v\n%q", refused, err, payload)
			}
		}
	})
}

func canAnswer(refused *DecodeError, from Side, payload Payload) error {
	if len(refused.Field) > 100 || len(refused.Reason) > 200 {
		return fmt.Errorf("the reason is %d bytes", len(refused.Error()))
	}
	if !refused.ExpectsReply() {
		return nil
	}
	var buf bytes.Buffer
	err := EncodeFrame(&buf, &Message{InReplyTo: refused.ID, RequestID: refused.RequestID, Error: refused.Reply("x"), Payload: payload}, 0)
	if err != nil {
		return err
	}
	_, err = Decode(buf.Bytes()[frame.HeaderBytes:], from)
	return err
}
