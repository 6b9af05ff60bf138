package server

import (
	"bufio"
	"encoding/binary"
	"math"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// wire is the connection under a websocket. The websocket writes through Write, which
// may block on a slow client; try never blocks.
type wire struct {
	net.Conn
	raw syscall.RawConn // nil for a connection that has none

	mu   sync.Mutex // held for a write and its wait
	rest []byte     // the unwritten part of a frame that try began
}

// Write writes p after the rest of an earlier frame.
func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if len(w.rest) > 0 {
		n, err := w.Conn.Write(w.rest)
		if w.rest = w.rest[n:]; err != nil {
			return 0, err
		}
		w.rest = nil
	}

	if len(p) == 0 {
		return 0, nil
	}
	return w.Conn.Write(p)
}

// flush writes the rest of a frame.
func (w *wire) flush() error {
	_, err := w.Write(nil)
	return err
}

// attempt is the result of try.
type attempt int

const (
	untouched     attempt = iota // nothing is written
	partlyWritten                // the rest goes out before all later writes
	written
)

// try writes as much of a frame as the kernel accepts at once. It writes nothing
// while another write is running or unfinished.
func (w *wire) try(frame []byte) attempt {
	if w.raw == nil || !w.mu.TryLock() {
		return untouched
	}
	defer w.mu.Unlock()

	if len(w.rest) > 0 {
		return untouched
	}
	n := 0
	err := w.raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), frame) // an error shows again in the next Write
		return true                          // do not wait until the client reads
	})

	switch {
	case err != nil || n <= 0:
		return untouched
	case n == len(frame):
		return written
	}

	w.rest = append([]byte(nil), frame[n:]...)
	return partlyWritten
}

const maxHeader = 10

// appendHeader appends the header of a text message in one frame, as a server
// sends it (RFC 6455, 5.2).
func appendHeader(dst []byte, length int) []byte {
	const finalText = 0x81
	dst = append(dst, finalText)
	switch {
	case length < 126:
		return append(dst, byte(length))
	case length <= math.MaxUint16:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(length))
	}
	return binary.BigEndian.AppendUint64(append(dst, 127), uint64(length))
}

// upgrade is the ResponseWriter of a request that becomes a websocket. It wraps the
// connection in a wire.
type upgrade struct {
	http.ResponseWriter
	wire *wire
}

// Hijack is called once, by the websocket library.
func (u *upgrade) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(u.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	u.wire = &wire{Conn: conn}
	if sc, ok := conn.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			u.wire.raw = raw
		}
	}

	rw.Writer.Reset(u.wire)
	return u.wire, rw, nil
}
