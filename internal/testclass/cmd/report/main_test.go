package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

func TestReportIsPrintedThoughTheTestsFail(t *testing.T) {
	t.Setenv(testclass.EnvReport, "")
	var out, errOut bytes.Buffer
	script := `echo '{"class":"required","test":"p TestX","why":"git is not installed","remedy":"apt-get install git"}' >>$` + testclass.EnvReport + `; exit 3`
	err := run([]string{"sh", "-c", script}, nil, &out, &errOut)
	if err == nil || !strings.Contains(out.String(), "git is not installed   -> apt-get install git\n      p TestX\n") {
		t.Errorf("%v\n%s%s", err, &out, &errOut)
	}
}

func TestInsideAnotherReportNothingIsPrinted(t *testing.T) {
	t.Setenv(testclass.EnvReport, "outer")
	var out, errOut bytes.Buffer
	err := run([]string{"sh", "-c", "echo $" + testclass.EnvReport}, nil, &out, &errOut)
	if err != nil || out.String() != "outer\n" {
		t.Errorf("%v\n%s%s", err, &out, &errOut)
	}
}

func TestPickIsDecidedByTheSeed(t *testing.T) {
	var lines strings.Builder
	for i := range 50 {
		fmt.Fprintln(&lines, i)
	}
	draw := func(seed string) string {
		t.Setenv(testclass.EnvSeed, seed)
		var out bytes.Buffer
		if err := run([]string{"--pick", "5"}, strings.NewReader(lines.String()), &out, io.Discard); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	if a := draw("a"); a != draw("a") || a == draw("b") || strings.Count(a, "\n") != 5 {
		t.Errorf("%q", a)
	}
}
