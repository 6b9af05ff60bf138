package contract

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/lightwork-market/lightwork/agentruntime/wire"
)

// message makes the payload of a frame: names are filled in, new ones made up,
// and v, id and ts added where they are missing.
func (p *player) message(arg string) ([]byte, error) {
	for _, name := range nameForm.FindAllString(arg, -1) {
		if _, ok := p.vars[name]; !ok {
			p.vars[name] = wire.NewID()
		}
	}

	doc := p.vars.fill(arg)
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(doc), &fields); err != nil {
		return nil, fmt.Errorf("the script's message: %w", err)
	}

	var head strings.Builder
	for _, f := range []struct{ name, value string }{
		{"v", "1"},
		{"id", `"` + wire.NewID() + `"`},
		{"ts", `"` + time.Now().UTC().Format(time.RFC3339Nano) + `"`},
	} {
		if _, given := fields[f.name]; !given {
			fmt.Fprintf(&head, `"%s":%s,`, f.name, f.value)
		}
	}

	return []byte("{" + head.String() + strings.TrimPrefix(doc, "{")), nil
}

// addLength prepends the length of a frame. It has no limit, because transcripts also
// test frames beyond the limit.
func addLength(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// record tells the watch and the evidence what the node says.
func (p *player) record(payload []byte) {
	p.note("core", payload)
	if doc, err := decode(payload); err == nil {
		p.watch.recordSent(doc)
	}
}

func (p *player) say(arg string) error {
	payload, err := p.message(arg)
	if err != nil {
		return err
	}
	p.record(payload)
	return p.write(addLength(payload))
}

func (p *player) saySlowly(arg string) error {
	payload, err := p.message(arg)
	if err != nil {
		return err
	}
	p.record(payload)
	for _, b := range addLength(payload) {
		if err := p.write([]byte{b}); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) sayInLines(arg string) error {
	payload, err := p.message(arg)
	if err != nil {
		return err
	}
	p.record(payload)
	var lines bytes.Buffer
	if err := json.Indent(&lines, payload, "\r\n", "\t\n"); err != nil {
		return err
	}
	return p.write(addLength(lines.Bytes()))
}

func (p *player) sayPadded(arg string) error {
	n, rest, err := cutNumber(arg)
	if err != nil {
		return err
	}
	payload, err := p.message(rest)
	if err != nil {
		return err
	}
	p.record(payload)
	blanks := bytes.Repeat([]byte(" "), max(0, n-len(payload)))
	return p.write(addLength(append(payload, blanks...)))
}

func (p *player) sayMany(arg string) error {
	n, rest, err := cutNumber(arg)
	if err != nil {
		return err
	}

	var burst []byte
	for i := 1; i <= n; i++ {
		payload, err := p.message(replaceNumber(rest, i))
		if err != nil {
			return err
		}
		p.record(payload)
		burst = append(burst, addLength(payload)...)
	}

	return p.write(burst)
}

func (p *player) sayRaw(arg string) error {
	payload := []byte(p.vars.fill(arg))
	p.record(payload)
	return p.write(addLength(payload))
}

func (p *player) sayBytes(arg string) error {
	data, err := hex.DecodeString(strings.ReplaceAll(arg, " ", ""))
	if err != nil {
		return err
	}
	p.note("core", []byte("bytes "+arg))
	return p.write(data)
}

// replaceNumber replaces $N, but no longer name that begins with it.
func replaceNumber(text string, n int) string {
	return numberForm.ReplaceAllStringFunc(text, func(name string) string {
		if name == "$N" {
			return strconv.Itoa(n)
		}
		return name
	})
}

// cutNumber splits "256 {…}".
func cutNumber(arg string) (int, string, error) {
	count, rest, _ := strings.Cut(arg, " ")
	n, err := strconv.Atoi(count)
	return n, rest, err
}
