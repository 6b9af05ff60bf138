// Command report runs tests by a command, and then prints which tests did not run
// and why.
//
//	report COMMAND...     runs it; inside another report, only that one prints
//	report --print FILE   prints the report that tests wrote to FILE
//	report --pick N       prints N lines of its input, chosen by LIGHTWORK_SEED
package main

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"

	"github.com/lightwork-market/lightwork/internal/testclass"
)

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

func run(args []string, in io.Reader, out, errOut io.Writer) error {
	switch {
	case len(args) == 0:
		return errors.New("name the command to run, --print FILE or --pick N")
	case args[0] == "--print" && len(args) == 2:
		return printReport(args[1], out)
	case args[0] == "--pick" && len(args) == 2:
		n, err := strconv.Atoi(args[1])
		if err != nil {
			return fmt.Errorf("--pick: %w", err)
		}
		return pick(n, in, out, errOut)
	}

	path := os.Getenv(testclass.EnvReport)
	if path != "" {
		return runTests(args, path, in, out, errOut)
	}

	file, err := os.CreateTemp("", "lightwork-tests-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())

	if err := errors.Join(file.Chmod(0o666), file.Close()); err != nil { // some tests run as other users
		return err
	}
	played := runTests(args, file.Name(), in, out, errOut)
	fmt.Fprintln(out, "\n== tests that did not run, or not whole")
	return errors.Join(played, printReport(file.Name(), out))
}

// runTests runs the command. An interrupt is left to the command; the table is printed
// after it too.
func runTests(args []string, path string, in io.Reader, out, errOut io.Writer) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, errOut
	cmd.Env = append(os.Environ(), testclass.EnvReport+"="+path)
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	return cmd.Run()
}

func printReport(path string, out io.Writer) error {
	doc, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	all, err := testclass.Read(doc)
	if err != nil {
		return err
	}
	return testclass.Print(out, all)
}

// pick prints n lines in their original order.
func pick(n int, in io.Reader, out, errOut io.Writer) error {
	var all []string
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		all = append(all, lines.Text())
	}
	if err := lines.Err(); err != nil {
		return err
	}
	seed := testclass.Seed()
	fmt.Fprintf(errOut, "%d of %d, chosen by %s=%s\n", min(n, len(all)), len(all), testclass.EnvSeed, seed)
	lot := rand.New(rand.NewChaCha8(sha256.Sum256([]byte(seed))))
	chosen := lot.Perm(len(all))[:min(n, len(all))]
	slices.Sort(chosen)

	for _, i := range chosen {
		if _, err := fmt.Fprintln(out, all[i]); err != nil {
			return err
		}
	}

	return nil
}
