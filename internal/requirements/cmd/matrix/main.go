// Command matrix runs the tests and prints which lines of docs/develop/requirements.md
// a passing test covers.
//
//	matrix [--list] [--from FILE] [packages and flags of go test]
//
// The output of failed tests, up to the last 8 KiB of each, follows on standard
// error.
//
// Exit codes: 0 every test passed, 1 one failed, 2 the run could not be read.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("matrix", flag.ContinueOnError)
	flags.SetOutput(stderr)
	list := flags.Bool("list", false, "name every line and the tests that cover it")
	from := flags.String("from", "", "read this output of go test -json ('-': standard input) instead of running the tests")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	lines, err := requirements.Read()
	if err == nil && len(lines) == 0 {
		err = errors.New("docs/develop/requirements.md has no lines")
	}
	var m *matrix
	if err == nil {
		m, err = events(*from, flags.Args(), stdin, stderr)
	}
	if err != nil {
		fmt.Fprintln(stderr, "matrix:", err)
		return 2
	}
	m.print(stdout, lines, *list)
	if len(m.failed) > 0 {
		for _, f := range m.failed {
			fmt.Fprintf(stderr, "matrix: failed: %s\n%s", f.test, f.output)
		}
		return 1
	}

	return 0
}

// events reads a recorded run, or runs the tests.
func events(from string, args []string, stdin io.Reader, stderr io.Writer) (*matrix, error) {
	switch from {
	case "":
	case "-":
		return read(stdin)
	default:
		f, err := os.Open(from)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		return read(f)
	}

	if len(args) == 0 {
		args = []string{"./..."}
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start go test: %w", err)
	}

	m, err := read(out)
	werr := cmd.Wait()
	var exited *exec.ExitError
	switch {
	case err != nil:
		return nil, err
	case errors.As(werr, &exited) && len(m.failed) == 0:
		m.failed = append(m.failed, failure{output: "go test: " + werr.Error() + "\n"})
	case werr != nil && exited == nil:
		return nil, fmt.Errorf("go test: %w", werr)
	}

	return m, nil
}
