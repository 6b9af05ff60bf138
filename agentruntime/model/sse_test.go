package model

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(r io.Reader) (all []string, lines int, err error) {
	in := newEvents(r, func() { lines++ })
	for {
		data, err := in.next()
		if errors.Is(err, io.EOF) {
			return all, lines, nil
		}
		if err != nil {
			return all, lines, err
		}
		all = append(all, string(data))
	}
}

func TestEvents(t *testing.T) {
	for name, test := range map[string]struct {
		in   string
		want []string
	}{
		"two":                 {"data: a\n\ndata: b\n\n", []string{"a", "b"}},
		"no space":            {"data:a\n\n", []string{"a"}},
		"one space goes":      {"data:  a\n\n", []string{" a"}},
		"carriage returns":    {"data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		"several lines":       {"data: a\ndata: b\ndata\n\n", []string{"a\nb\n"}},
		"other fields":        {": hello\nevent: x\nid: 1\nretry: 5\ndata: a\n\nevent: y\n\n", []string{"a"}},
		"empty data":          {"data:\n\n", []string{""}},
		"byte order mark":     {"\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		"mark only at first":  {"data: a\n\n\xef\xbb\xbfdata: b\n\n", []string{"a"}},
		"cut in an event":     {"data: a\n\ndata: b\n", []string{"a"}},
		"cut in a line":       {"data: a\n\ndata: b", []string{"a"}},
		"name of another":     {"database: a\nDATA: b\n data: c\n\n", nil},
		"nothing":             {"", nil},
		"colons in the value": {"data: a: b:c\n\n", []string{"a: b:c"}},
	} {
		got, _, err := readAll(iotest.OneByteReader(strings.NewReader(test.in)))
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// FuzzEvents holds the reader against the simplest one that could be: all of
// it in memory, split and looked at.
func FuzzEvents(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\ndata: b\n\n", "data:a\r\n\r\n", ": x\n\n\ndata: \xff\n\n", "data\n\ndata\ndata: \n\n", "\xef\xbb\xbfdata: a\n\nda", "event: x\ndata: {}\n\n\r\n\r\n",
		"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: [DONE]\n\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 1<<16 {
			return
		}
		var want, event []string
		lines := strings.SplitAfter(strings.TrimPrefix(string(in), "\xef\xbb\xbf"), "\n")
		for _, line := range lines {
			line, whole := strings.CutSuffix(line, "\n")
			line = strings.TrimSuffix(line, "\r")
			switch value, isData := strings.CutPrefix(line+":", "data:"); {
			case !whole:
			case line == "" && event != nil:
				want, event = append(want, strings.Join(event, "\n")), nil
			case isData:
				event = append(event, strings.TrimPrefix(strings.TrimSuffix(value, ":"), " "))
			}
		}
		got, _, err := readAll(iotest.HalfReader(strings.NewReader(string(in))))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, want %q, %v", got, want, err)
		}
	})
}

// FuzzStream: whatever is streamed, there is an answer that passes its check,
// or an error, and the text told is the text of the answer.
func FuzzStream(f *testing.F) {
	f.Add([]byte(event(hi) + event(callDelta(0, "a")) + event(stop)))
	f.Add([]byte(event(callDelta(0, "a")) + event(callDelta(1, "b")) + event(stop) + event("[DONE]")))
	f.Add([]byte(event(`{"choices":[{"delta":{"tool_calls":[{"id":"a"}]},"finish_reason":"x"}],"usage":{"prompt_tokens":1}}`)))
	f.Add([]byte(event(`{"error":{"message":"x"}}`)))
	f.Fuzz(func(t *testing.T, in []byte) {
		text := ""
		a := &answer{body: &limitedReader{strings.NewReader(string(in)), 1 << 20}, media: mediaEvents, alive: func() {}}
		r, err := readStream(a, func(s string) { text += s })
		if err != nil {
			return
		}
		if err := r.Check(); err != nil || r.Message.Content != text {
			t.Errorf("%+v %q %v", r, text, err)
		}
	})
}
