package sandbox

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lightwork-market/lightwork/hashing"
)

// stream follows one output channel of one command: it hashes everything and keeps
// the beginning.
type stream struct {
	channel string
	emit    func(channel, text string)
	sum     hash.Hash
	head    []byte
	carry   []byte // the beginning of an incomplete character
}

func newStream(channel string, emit func(channel, text string)) *stream {
	return &stream{channel: channel, emit: emit, sum: sha256.New()}
}

func (s *stream) write(piece []byte) {
	s.sum.Write(piece)
	if room := maxPreviewBytes + utf8.UTFMax - len(s.head); room > 0 {
		s.head = append(s.head, piece[:min(room, len(piece))]...)
	}
	if s.emit == nil {
		return
	}
	s.carry = append(s.carry, piece...)
	whole := len(s.carry) - partialRune(s.carry)
	if whole > 0 {
		s.emit(s.channel, strings.ToValidUTF8(string(s.carry[:whole]), "\uFFFD"))
	}
	s.carry = append([]byte(nil), s.carry[whole:]...)
}

// end emits the remaining bytes of an incomplete character.
func (s *stream) end() {
	if s.emit != nil && len(s.carry) > 0 {
		s.emit(s.channel, strings.ToValidUTF8(string(s.carry), "\uFFFD"))
	}
	s.carry = nil
}

func (s *stream) digest() hashing.Digest { return hashing.Digest(s.sum.Sum(nil)) }

// preview returns at most limit bytes of valid UTF-8, cut between characters.
func (s *stream) preview(limit int) string {
	whole := s.head
	if len(whole) > maxPreviewBytes { // the head may end inside a character
		whole = whole[:len(whole)-partialRune(whole)]
	}
	return preview(whole, limit)
}

func preview(b []byte, limit int) string {
	text := strings.ToValidUTF8(string(b), "\uFFFD")
	if len(text) <= limit {
		return text
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut]
}

// partialRune returns the number of bytes at the end of b that begin an incomplete
// character.
func partialRune(b []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		tail := b[len(b)-n:]
		if utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return n
			}
			return 0
		}
	}
	return 0
}

// commandRun collects the output and result of one command.
type commandRun struct {
	cmd            string
	exitCode       int
	durationMs     int64
	stdout, stderr *stream
	bytes          int64
	started        time.Time
	finished       bool
}

func (r *commandRun) write(kind byte, piece []byte) error {
	r.bytes += int64(len(piece))
	if r.bytes > maxOutputBytes {
		return errOutputLimit
	}
	if kind == frameStdout {
		r.stdout.write(piece)
	} else {
		r.stderr.write(piece)
	}
	return nil
}

func (r *commandRun) end() {
	r.stdout.end()
	r.stderr.end()
}

var errOutputLimit = fmt.Errorf("output_limit: a command wrote more than %d bytes", maxOutputBytes)
