package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/lightwork-market/lightwork/agentruntime/manifest"
	"github.com/lightwork-market/lightwork/agentruntime/organism"
	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/config"
	"github.com/lightwork-market/lightwork/internal/yamlfile"
)

// example is a block of a document between lines of ```.
type example struct {
	doc, language, text string
	line                int // of its first line
}

func (e example) String() string { return fmt.Sprintf("%s:%d", e.doc, e.line) }

var fence = regexp.MustCompile("(?m)^ *```([a-z]*)\n((?s:.*?))^ *```")

// examples are those of every document.
func allExamples(t *testing.T) []example {
	t.Helper()
	var names []string
	for _, pattern := range []string{"../../*.md", "../../docs/*/*.md", "../../sdk/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		names = append(names, found...)
	}
	var all []example
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range fence.FindAllSubmatchIndex(text, -1) {
			all = append(all, example{
				doc: strings.TrimPrefix(name, "../../"), language: string(text[m[2]:m[3]]), text: string(text[m[4]:m[5]]),
				line: strings.Count(string(text[:m[4]]), "\n") + 1,
			})
		}
	}
	return all
}

// TestDocsYAML: every configuration that a document prints can be used as it is
// printed.
func TestDocsYAML(t *testing.T) {
	var organisms []example // the parts of one come after each other
	n := 0
	for _, e := range allExamples(t) {
		if e.language != "yaml" {
			continue
		}
		n++
		switch {
		case isRules(e): // TestAlerts plays them
		case regexp.MustCompile(`(?m)^organism:( *\{|\n)`).MatchString(e.text):
			organisms = append(organisms, e)
		case strings.HasPrefix(e.text, "  - ") && len(organisms) > 0 && organisms[len(organisms)-1].doc == e.doc:
			organisms[len(organisms)-1].text += e.text
		case strings.HasPrefix(e.text, "  - "): // a listener, among whose peers TestDocsConfigurations runs it
			if e.doc != "docs/build-agents/messages.md" {
				t.Errorf("%s: a part of a file that nothing tries", e)
			}
		default:
			checkFragment(t, e)
		}
	}
	for _, e := range organisms {
		if _, err := organism.Parse([]byte(e.text), e.doc); err != nil {
			t.Errorf("%s: %v", e, err)
		}
	}
	if n == 0 || len(organisms) == 0 {
		t.Errorf("%d examples, %d organisms", n, len(organisms))
	}
}

// checkFragment reads a part of lightwork.yaml. What every file has, and a wallet
// where it has none, is put beside it.
func checkFragment(t *testing.T, e example) {
	t.Helper()
	src := []byte(e.text + "version: 1\nrelays: [ws://127.0.0.1:7447]\n")
	var c config.Config
	if bad := yamlfile.Decode(src, &c); len(bad) > 0 {
		t.Errorf("%s: %+v", e, bad)
		return
	}

	if c.Provider.Wallet.None() {
		c.Provider.Wallet = config.Wallet{Backend: "play", Play: config.Play{URL: "http://127.0.0.1:7448", TokenFile: "token"}}
	}
	for _, bad := range c.Check() {
		t.Errorf("%s: %s: %s", e, bad.Path, bad.Why)
	}
}

// TestDocsJSON: what is printed as JSON is, and a manifest is one.
func TestDocsJSON(t *testing.T) {
	n := 0
	for _, e := range allExamples(t) {
		if e.language != "json" {
			continue
		}
		n++
		if err := hashing.Check([]byte(e.text)); err != nil {
			t.Errorf("%s: %v", e, err)
		}
		if !strings.Contains(e.text, `"entrypoint"`) {
			continue
		}
		if _, err := manifest.Parse([]byte(e.text)); err != nil {
			t.Errorf("%s: %v", e, err)
		}
	}
	if n == 0 {
		t.Error("no example")
	}
}

var (
	inlineCommand = regexp.MustCompile("`((?:bin/)?lightwork [^`]*)`")
	flagWord      = regexp.MustCompile(`^--([a-z][a-z-]*)`)
)

// TestDocsCommandLines: every command that a document prints exists, with its flags.
func TestDocsCommandLines(t *testing.T) {
	parser, err := kong.New(&cli{}, kong.Vars{"version": "dev"})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	try := func(where, line string) {
		line, _, _ = strings.Cut(line, " #")
		n++
		for _, bad := range unknownWords(parser.Model.Node, strings.Fields(line)[1:]) {
			t.Errorf("%s: %q: there is no %s", where, line, bad)
		}
	}
	for _, e := range allExamples(t) {
		for i, line := range strings.Split(strings.ReplaceAll(e.text, "\\\n", ""), "\n") {
			if text := strings.TrimPrefix(strings.TrimSpace(line), "bin/"); strings.HasPrefix(text, "lightwork ") {
				try(fmt.Sprintf("%s:%d", e.doc, e.line+i), text)
			}
		}
	}
	for _, name := range []string{"*.md", "docs/*/*.md"} {
		files, err := filepath.Glob("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range inlineCommand.FindAllSubmatch(text, -1) {
				try(filepath.Base(file), string(m[1]))
			}
		}
	}
	if n < 50 {
		t.Errorf("only %d commands", n)
	}
}

// unknownWords walks down the commands, and looks the flags of the last one up.
func unknownWords(at *kong.Node, words []string) (bad []string) {
	flags := at.Flags
	isCommand := true
	for i := 0; i < len(words); i++ {
		word := strings.Trim(words[i], `[]"'.,;)`)
		if m := flagWord.FindStringSubmatch(word); m != nil {
			known := slices.ContainsFunc(flags, func(f *kong.Flag) bool {
				return f.Name == m[1] || slices.Contains(f.Aliases, m[1]) || f.Tag.Negatable != "" && "no-"+f.Name == m[1]
			})
			if !known && m[1] != "help" {
				bad = append(bad, "flag --"+m[1])
			}
			isCommand = false
			continue
		}
		if word == "-c" || word == "--" || strings.ContainsAny(word, "|;&>") {
			if word == "-c" {
				i++
				continue
			}
			return bad
		}
		if !isCommand || len(at.Children) == 0 {
			isCommand = false
			continue
		}
		next := slices.IndexFunc(at.Children, func(child *kong.Node) bool { return child.Type == kong.CommandNode && child.Name == word })
		switch {
		case next >= 0:
			at = at.Children[next]
			flags = append(slices.Clone(flags), at.Flags...)
		case strings.Trim(word, "abcdefghijklmnopqrstuvwxyz-") == "" && at.Type != kong.CommandNode && word != "agent" && word != "help":
			bad = append(bad, "command "+word)
			isCommand = false
		default:
			isCommand = false
		}
	}
	return bad
}
