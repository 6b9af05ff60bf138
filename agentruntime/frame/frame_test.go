package frame

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// object is a JSON object of exactly n bytes.
func object(n int) []byte {
	return []byte(`{"a":"` + strings.Repeat("x", n-len(`{"a":""}`)) + `"}`)
}

func mustAppend(t testing.TB, payloads ...string) []byte {
	t.Helper()
	var stream []byte
	for _, p := range payloads {
		var err error
		if stream, err = Append(stream, []byte(p), 0); err != nil {
			t.Fatal(err)
		}
	}
	return stream
}

func header(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

func TestFrameBytes(t *testing.T) {
	requirements.Covers(t, "OS-2.1.1", "OS-2.1.2", "OS-2.1.3", "OS-2.1.4", "OS-0.13")
	tests := []struct{ name, payload, hex string }{
		{"smallest", `{}`, "000000027b7d"},
		{"length counts bytes", `{"ü":"€"}`, "0000000c7b22c3bc223a22e282ac227d"},
		{"newlines end nothing", "{\n\"a\":\n1}\n", "0000000a7b0a2261223a0a317d0a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			stream := mustAppend(t, tt.payload)
			if got := fmt.Sprintf("%x", stream); got != tt.hex {
				t.Fatalf("frame is %s, want %s", got, tt.hex)
			}
			// A second frame follows at once.
			r := NewReader(bytes.NewReader(append(stream, mustAppend(t, `{"next":1}`)...)), 0)
			for _, want := range []string{tt.payload, `{"next":1}`} {
				got, err := r.Next()
				if err != nil || string(got) != want {
					t.Fatalf("read %q, %v; want %q", got, err, want)
				}
			}
			if _, err := r.Next(); err != io.EOF {
				t.Fatalf("end is %v, want io.EOF", err)
			}
		})
	}
}

func TestFramesInAnyPieces(t *testing.T) {
	requirements.Covers(t, "OS-2.1.5")
	var payloads []string
	for _, n := range []int{2 + 6, 100, window - HeaderBytes, window - HeaderBytes + 1, window, 3*window + 17, 40} {
		payloads = append(payloads, string(object(n)))
	}
	stream := mustAppend(t, payloads...)
	sources := map[string]io.Reader{
		"one byte a read":   iotest.OneByteReader(bytes.NewReader(stream)),
		"half reads":        iotest.HalfReader(bytes.NewReader(stream)),
		"all in one read":   bytes.NewReader(stream),
		"data with the EOF": iotest.DataErrReader(bytes.NewReader(stream)),
		"random pieces":     &pieces{rest: stream},
	}
	for name, src := range sources {
		t.Run(name, func(t *testing.T) {
			r := NewReader(src, 0)
			for i, want := range payloads {
				got, err := r.Next()
				if err != nil || string(got) != want {
					t.Fatalf("frame %d: %d bytes, %v; want %d bytes", i, len(got), err, len(want))
				}
			}
			if _, err := r.Next(); err != io.EOF {
				t.Fatalf("end is %v, want io.EOF", err)
			}
		})
	}
}

type pieces struct{ rest []byte }

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b[:min(len(b), 1+rand.IntN(5000))], p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

func TestRefusedPayloads(t *testing.T) {
	requirements.Covers(t, "OS-2.1.5")
	tests := []struct {
		payload string
		want    error
	}{
		{`[]`, ErrNotObject},
		{`"text"`, ErrNotObject},
		{`42`, ErrNotObject},
		{`null`, ErrNotObject},
		{`{`, ErrNotObject},
		{`}`, ErrNotObject},
		{`   `, ErrNotObject},
		{`[{}]`, ErrNotObject},
		{"{\"a\":\"\xff\"}", ErrNotUTF8},
		{"{\"a\":\"\xed\xa0\x80\"}", ErrNotUTF8}, // a surrogate
		{"\x00\x01\x02", ErrNotObject},
	}
	for _, tt := range tests {
		stream := append(header(uint32(len(tt.payload))), tt.payload...)
		if _, err := NewReader(bytes.NewReader(stream), 0).Next(); !errors.Is(err, tt.want) {
			t.Errorf("read %q: %v, want %v", tt.payload, err, tt.want)
		}
		if _, err := Append(nil, []byte(tt.payload), 0); !errors.Is(err, tt.want) {
			t.Errorf("append %q: %v, want %v", tt.payload, err, tt.want)
		}
	}
	if _, err := NewReader(bytes.NewReader(header(0)), 0).Next(); !errors.Is(err, ErrEmpty) {
		t.Errorf("length 0: %v, want ErrEmpty", err)
	}
}

func TestLimitEdges(t *testing.T) {
	requirements.Covers(t, "OS-2.2.1", "OS-2.2.4")
	tests := []struct {
		name        string
		limit, size int
		ok          bool
	}{
		{"default, exactly 4194304", 0, 4194304, true},
		{"default, 4194305", 0, 4194305, false},
		{"configured, exact", 1000, 1000, true},
		{"configured, one more", 1000, 1001, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			payload := object(tt.size)
			_, err := Append(nil, payload, tt.limit)
			if (err == nil) != tt.ok {
				t.Errorf("append: %v", err)
			}
			src := bytes.NewReader(append(header(uint32(tt.size)), payload...))
			got, err := NewReader(src, tt.limit).Next()
			if tt.ok {
				if err != nil || !bytes.Equal(got, payload) {
					t.Fatalf("read: %d bytes, %v", len(got), err)
				}
				return
			}
			var size *SizeError
			if !errors.As(err, &size) || size.Size != int64(tt.size) || !errors.Is(err, ErrTooLarge) {
				t.Fatalf("read: %v, want a SizeError with %d", err, tt.size)
			}
		})
	}
}

// counter counts what is read from it.
type counter struct {
	r io.Reader
	n int
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}

func TestOversizeBodyIsNotRead(t *testing.T) {
	requirements.Covers(t, "OS-2.2.8")
	src := &counter{r: io.MultiReader(bytes.NewReader(header(0xffffffff)), zeros{})}
	if _, err := NewReader(src, 0).Next(); !errors.Is(err, ErrTooLarge) {
		t.Fatalf("got %v", err)
	}
	if src.n > window {
		t.Errorf("%d bytes were read of an oversize frame", src.n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestAnnouncedLengthAllocatesNothing(t *testing.T) {
	stream := append(header(DefaultMaxBytes), '{')
	const rounds = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		if _, err := NewReader(bytes.NewReader(stream), 0).Next(); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	allocated := (after.TotalAlloc - before.TotalAlloc) / rounds
	if allocated > 4*window {
		t.Errorf("a 4 MiB length without a body allocated %d bytes", allocated)
	}
}

func TestTruncated(t *testing.T) {
	full := append(mustAppend(t, `{"a":1}`), mustAppend(t, string(object(window*2)))...)
	for cut := 0; cut < len(full); cut++ {
		if cut == 20 {
			cut = len(full) - 20
		}
		r := NewReader(bytes.NewReader(full[:cut]), 0)
		var err error
		for err == nil {
			_, err = r.Next()
		}
		if between := cut == 0 || cut == 11; (err == io.EOF) != between || !between && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("cut at %d: %v", cut, err)
		}
	}
}

func TestSameBytesOnEveryTransport(t *testing.T) {
	requirements.Covers(t, "OS-1.2.3")
	stream := mustAppend(t, `{"v":1}`, string(object(100_000)), `{"ü":"€"}`)
	for _, network := range []string{"unix", "tcp"} {
		t.Run(network, func(t *testing.T) {
			addr := "127.0.0.1:0"
			if network == "unix" {
				addr = filepath.Join(t.TempDir(), "s")
			}
			ln, err := net.Listen(network, addr)
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			sent := make(chan error, 1)
			go func() {
				conn, err := net.Dial(network, ln.Addr().String())
				if err == nil {
					_, err = conn.Write(stream)
					conn.Close()
				}
				sent <- err
			}()
			conn, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			var back []byte
			for r := NewReader(conn, 0); ; {
				p, err := r.Next()
				if err == io.EOF {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if back, err = Append(back, p, 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := <-sent; err != nil || !bytes.Equal(back, stream) {
				t.Errorf("%v: %d bytes came back, want %d", err, len(back), len(stream))
			}
		})
	}
}

func TestSeal(t *testing.T) {
	f := append(make([]byte, HeaderBytes), `{}`...)
	if err := Seal(f, 2); err != nil || !bytes.Equal(f, mustAppend(t, `{}`)) {
		t.Errorf("sealed %x, %v", f, err)
	}
	if err := Seal(f, 1); !errors.Is(err, ErrTooLarge) {
		t.Errorf("over the limit: %v", err)
	}
	for _, short := range [][]byte{nil, {1, 2, 3}, {0, 0, 0, 0}} {
		if err := Seal(short, 0); !errors.Is(err, ErrEmpty) {
			t.Errorf("seal %x: %v", short, err)
		}
	}
}

func FuzzReader(f *testing.F) {
	f.Add(mustAppend(f, `{}`, `{"a":"é"}`), 100)
	f.Add(append(header(5), "[1,2]"...), 100)
	f.Add(header(0), 100)
	f.Add(header(0xffffffff), 0)
	f.Add([]byte{0, 0}, 10)
	f.Add(append(header(3), '{', 0xff, '}'), 10)
	f.Fuzz(func(t *testing.T, stream []byte, limit int) {
		limit = min(limit, 1<<20)
		whole := NewReader(bytes.NewReader(stream), limit)
		slow := NewReader(iotest.OneByteReader(bytes.NewReader(stream)), limit)
		var again []byte
		for {
			p, err := whole.Next()
			q, err2 := slow.Next()
			if (err == nil) != (err2 == nil) || !bytes.Equal(p, q) {
				t.Fatalf("pieces change the outcome: %q %v, %q %v", p, err, q, err2)
			}
			if err != nil {
				break
			}
			if again, err = Append(again, p, limit); err != nil {
				t.Fatalf("a frame that was read cannot be written: %v", err)
			}
		}
		if !bytes.HasPrefix(stream, again) {
			t.Fatal("frames do not encode to the bytes they came from")
		}
	})
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, size := range []int{256, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			payload := object(size)
			var pipe bytes.Buffer
			r := NewReader(&pipe, 0)
			var buf []byte
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = Append(buf[:0], payload, 0); err != nil {
					b.Fatal(err)
				}
				pipe.Write(buf)
				if _, err := r.Next(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// interrupted has a deadline pass before every other read.
type interrupted struct {
	src  io.Reader
	next bool
}

func (r *interrupted) Read(p []byte) (int, error) {
	if r.next = !r.next; r.next {
		return 0, os.ErrDeadlineExceeded
	}
	return r.src.Read(p[:min(len(p), 1000)])
}

func TestReadingGoesOnAfterADeadline(t *testing.T) {
	var payloads []string
	for _, n := range []int{8, 5000, window + 1, 5*window + 17, 8} {
		payloads = append(payloads, string(object(n)))
	}
	r := NewReader(&interrupted{src: iotest.DataErrReader(bytes.NewReader(mustAppend(t, payloads...)))}, 0)
	next := func() ([]byte, error) {
		for {
			if p, err := r.Next(); !errors.Is(err, os.ErrDeadlineExceeded) {
				return p, err
			}
		}
	}
	for i, want := range payloads {
		if got, err := next(); err != nil || string(got) != want {
			t.Fatalf("frame %d: %d bytes, %v; want %d", i, len(got), err, len(want))
		}
		if last := i == len(payloads)-1; last && r.Buffered() {
			t.Error("something is buffered behind the last frame")
		}
	}
	if _, err := next(); err != io.EOF {
		t.Fatalf("end is %v, want io.EOF", err)
	}
}

func TestBuffered(t *testing.T) {
	r := NewReader(bytes.NewReader(append(mustAppend(t, `{}`), 0)), 0)
	if _, err := r.Next(); err != nil || !r.Buffered() {
		t.Errorf("buffered %v, err %v", r.Buffered(), err)
	}
}
