package hashing

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"
)

var smallRequest = []byte(`{"sandbox":{"provider":"docker","image_digest":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
"network_policy":"none","resources":{"memory_mb":512,"cpus":1.0,"timeout_secs":60}},"repo":{"source":"","mount_path":"/workspace"},
"commands":[{"cmd":"go vet ./...","continue_on_fail":false},{"cmd":"go test ./...","continue_on_fail":false}],
"verification":{"mode":"objective","redundancy":1,"adjudication":"none"}}`)

// largeDocument is an array of trajectory-like lines of about size bytes.
func largeDocument(size int) []byte {
	var b bytes.Buffer
	b.WriteByte('[')
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"event":"ToolCall","t":"2026-02-01T00:00:%02d.%03dZ","id":"tc_%d","tool":"sandbox_run",`+
			`"params":{"cmd":"make test \"all\"\n","env":{"B":"é","A":"1"},"n":[%d,%d.25,1e-9]},"step_id":"step-%d","ok":true,"none":null}`,
			i%60, i%1000, i, i, i, i%7)
	}
	b.WriteByte(']')
	return b.Bytes()
}

func BenchmarkCheck(b *testing.B) {
	b.SetBytes(int64(len(smallRequest)))
	b.ReportAllocs()
	for b.Loop() {
		if err := Check(smallRequest); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonical(b *testing.B) {
	b.SetBytes(int64(len(smallRequest)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonical(smallRequest); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCanonicalAlready(b *testing.B) {
	doc, err := Canonical(smallRequest)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Canonical(doc); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkTrajectory digests 200 KB of trajectory, line by line as a node does,
// and all of it with the other implementation: as lines are written, and with
// their members in another order.
func BenchmarkTrajectory(b *testing.B) {
	unsorted := largeDocument(200 << 10)
	written, err := Canonical(unsorted)
	if err != nil {
		b.Fatal(err)
	}
	for name, doc := range map[string][]byte{"written": written, "unsorted": unsorted} {
		var lines []jsontext.Value
		if err := json.Unmarshal(doc, &lines); err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				var a ArrayHasher
				var o Object
				for _, line := range lines {
					if err := o.Parse(line); err != nil {
						b.Fatal(err)
					}
					a.AddObject(&o)
				}
				a.Sum()
			}
		})
		b.Run(name+"/jcs", func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				out, err := jcs.Transform(doc)
				if err != nil {
					b.Fatal(err)
				}
				_ = Bytes(out)
			}
		})
	}
}

func BenchmarkObject(b *testing.B) {
	b.SetBytes(int64(len(smallRequest)))
	b.ReportAllocs()
	var o Object
	for b.Loop() {
		if err := o.Parse(smallRequest); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkReader(b *testing.B) {
	doc := []byte(readable)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		in := NewReader(doc)
		var s small
		if s.read(in); !in.Done() {
			b.Fatal("not read")
		}
	}
}
