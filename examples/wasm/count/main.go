//go:build wasip1

// Command count is a tool in Go. It is a command: it reads the request from
// standard input and writes {"ok": response} or {"err": "text"} to standard
// output.
package main

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"unicode"
)

type request struct {
	Text string `json:"text"`
	Top  *uint8 `json:"top"`
}

type word struct {
	Text  string `json:"text"`
	Times uint32 `json:"times"`
}

type response struct {
	Words uint32 `json:"words"`
	Top   []word `json:"top"`
}

// outcome is result<response, string>.
type outcome struct {
	OK  *response `json:"ok,omitempty"`
	Err *string   `json:"err,omitempty"`
}

func main() {
	var req request
	if err := json.NewDecoder(os.Stdin).Decode(&req); err != nil {
		panic(err) // the host sends what the schema allows, nothing else
	}
	if err := json.NewEncoder(os.Stdout).Encode(count(req)); err != nil {
		panic(err)
	}
}

func count(req request) outcome {
	times := map[string]uint32{}
	res := response{Top: []word{}}
	for w := range strings.FieldsFuncSeq(req.Text, func(r rune) bool { return !unicode.IsLetter(r) }) {
		times[strings.ToLower(w)]++
		res.Words++
	}

	if res.Words == 0 {
		message := "the text has no words"
		return outcome{Err: &message}
	}
	for text, n := range times {
		res.Top = append(res.Top, word{text, n})
	}
	slices.SortFunc(res.Top, func(a, b word) int {
		return cmp.Or(cmp.Compare(b.Times, a.Times), strings.Compare(a.Text, b.Text))
	})
	limit := 10
	if req.Top != nil {
		limit = int(*req.Top)
	}
	res.Top = res.Top[:min(limit, len(res.Top))]
	return outcome{OK: &res}
}
