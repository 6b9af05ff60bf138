package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// testdata/run.json is a real run of a small package, without its output.
func TestReadRecordedRun(t *testing.T) {
	f, err := os.Open("testdata/run.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := read(f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range m.covers {
		got = append(got, line)
	}
	slices.Sort(got)
	// Not OS-2.2.3 and OS-2.2.4 (failed), AP-1.1.1 (skipped), OA-1.1 (another attribute).
	if want := []string{"K-1", "OS-2.2.1", "OS-2.2.2", "OSX-2", "PT-1"}; !slices.Equal(got, want) {
		t.Errorf("covered %v, want %v", got, want)
	}
	if n := len(m.covers["OS-2.2.2"]); n != 1 {
		t.Errorf("a line named twice by one test counts %d times", n)
	}
	var failed []string
	for _, f := range m.failed {
		failed = append(failed, f.test.String())
	}
	if want := []string{"sample.TestFail/bad", "sample.TestFail", "sample"}; !slices.Equal(failed, want) {
		t.Errorf("failed %v, want %v", failed, want)
	}
}

// Whoever runs the matrix sees why a test failed without a second run.
func TestFailureIsShownWithWhatItSaid(t *testing.T) {
	for name, c := range map[string]struct{ events, want, not string }{
		"a test": {`{"Action":"output","Package":"p","Test":"TestGood","Output":"good.go:1: fine\n"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"bad.go:7: got 3, "}
{"Action":"output","Package":"p","Test":"TestBad","Output":"want 4\n"}
{"Action":"pass","Package":"p","Test":"TestGood"}
{"Action":"fail","Package":"p","Test":"TestBad"}`, "matrix: failed: p.TestBad\nbad.go:7: got 3, want 4\n", "good.go"},
		"a package that does not compile": {`{"ImportPath":"p [p.test]","Action":"build-output","Output":"p/p.go:3:1: undefined: nothing\n"}
{"ImportPath":"p [p.test]","Action":"build-fail"}
{"Action":"output","Package":"p","Output":"FAIL\tp [build failed]\n"}
{"Action":"fail","Package":"p","FailedBuild":"p [p.test]"}`, "matrix: failed: p\np/p.go:3:1: undefined: nothing\nFAIL\tp [build failed]\n", ""},
		"the end of a lot": {`{"Action":"output","Package":"p","Test":"T","Output":"first line\n` + strings.Repeat("x", maxOutput) + `\n"}
{"Action":"output","Package":"p","Test":"T","Output":"the verdict\n"}
{"Action":"fail","Package":"p","Test":"T"}`, "(what came before is left out)\nthe verdict\n", "first line"},
	} {
		t.Run(name, func(t *testing.T) {
			var errs bytes.Buffer
			if code := run([]string{"--from", "-"}, strings.NewReader(c.events), new(bytes.Buffer), &errs); code != 1 {
				t.Errorf("exit code %d, want 1", code)
			}
			if got := errs.String(); !strings.Contains(got, c.want) || c.not != "" && strings.Contains(got, c.not) {
				t.Errorf("stderr %q, want %q and not %q", got, c.want, c.not)
			}
		})
	}
}

func TestUnfinishedTestCoversNothing(t *testing.T) {
	m, err := read(strings.NewReader(`{"Action":"attr","Package":"p","Test":"TestCrash","Key":"covers","Value":"K-1"}
{"Action":"fail","Package":"p"}`))
	if err != nil || len(m.covers) != 0 || len(m.failed) != 1 {
		t.Errorf("covers %v, failed %v, %v", m.covers, m.failed, err)
	}
}

func TestPrint(t *testing.T) {
	lines := requirements.Parse([]byte(`
- OS-1 [MUST] one
- OS-2 [DEF] two
- OS-3 [MAY] three
- OS-4 [MAY] four
- OSX-1 three
- K-1 four
text - OS-9 [MUST] is no line
- AN-1 five
- AN-2 six
- later AN-*: one node
- partly later OSX-1, K-1: gateways
- settled OS-3: another way
- not carried OS-4: no program asks
- partly settled OSX-1: one field of two
`))
	m := &matrix{covers: map[string][]testID{
		"OS-1":  {{"p", "TestA"}, {"p", "TestB"}},
		"OS-4":  {{"p", "TestA"}},
		"OSX-1": {{"p", "TestA"}},
	}}
	var out bytes.Buffer
	m.print(&out, lines, true)
	text := out.String()
	for _, want := range []string{"+ OS-1       p.TestA and 1 more\n", "- OS-2\n", "~ OSX-1      p.TestA (later: gateways) (settled: one field of two)\n", "= OS-3       (settled: another way)\n", "- K-1        (later: gateways)\n", ". AN-1       (later: one node)\n", "o OS-4       p.TestA (not carried: no program asks)\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	rows := map[string][]string{}
	for row := range strings.Lines(text) {
		if f := strings.Fields(row); len(f) >= 8 {
			rows[f[0]] = f[1:8]
		}
	}
	for part, want := range map[string][]string{
		"OS": {"1", "0", "1", "0", "1", "1", "4"}, "X": {"0", "1", "0", "0", "0", "0", "1"}, "K": {"0", "0", "0", "0", "0", "1", "1"}, "AN": {"0", "0", "0", "2", "0", "0", "2"},
		"OA": {"0", "0", "0", "0", "0", "0", "0"}, "all": {"1", "1", "1", "2", "1", "2", "8"},
	} {
		if !slices.Equal(rows[part], want) {
			t.Errorf("row %s is %v, want %v", part, rows[part], want)
		}
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		in   string
		code int
		out  string
		err  string
	}{
		{"passed", []string{"--from", "-"}, `{"Action":"pass","Package":"p"}`, 0, "part  covered", ""},
		{"failed", []string{"--from", "testdata/run.json"}, "", 1, "part  covered", "matrix: failed: sample.TestFail/bad"},
		{"not events", []string{"--from", "-"}, "ok p 0.1s", 2, "", "go test -json"},
		{"no file", []string{"--from", "testdata/none.json"}, "", 2, "", "none.json"},
		{"unknown flag", []string{"--lists"}, "", 2, "", "lists"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errs bytes.Buffer
			if code := run(c.args, strings.NewReader(c.in), &out, &errs); code != c.code {
				t.Errorf("exit code %d, want %d", code, c.code)
			}
			if !strings.Contains(out.String(), c.out) || c.out == "" && out.Len() > 0 {
				t.Errorf("stdout %q, want %q", out.String(), c.out)
			}
			if !strings.Contains(errs.String(), c.err) || c.err == "" && errs.Len() > 0 {
				t.Errorf("stderr %q, want %q", errs.String(), c.err)
			}
		})
	}
}

// Every line belongs to a row, and no id is there twice.
func TestDocument(t *testing.T) {
	lines, err := requirements.Read()
	if err != nil {
		t.Fatal(err)
	}
	known, seen := map[string]bool{}, map[string]bool{}
	for _, p := range parts {
		known[p.letters] = true
	}
	rows := map[string]int{}
	for _, l := range lines {
		if !known[part(l.ID)] || seen[l.ID] || l.Text == "" {
			t.Errorf("line %q is of no part, empty, or there twice", l.ID)
		}
		seen[l.ID] = true
		rows[part(l.ID)]++
	}
	for letters := range known {
		if rows[letters] == 0 {
			t.Errorf("part %s has no lines", letters)
		}
	}
}
