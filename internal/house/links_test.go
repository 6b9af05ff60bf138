package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	fenced  = regexp.MustCompile("(?ms)^ *```.*?^ *```")
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	noSlug  = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// documents are the pages of the project, by path from the root.
func documents(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	pages := map[string]string{}
	read := func(path string) error {
		text, err := os.ReadFile(path)
		rel, relErr := filepath.Rel(root, path)
		if err == nil {
			err = relErr
		}
		pages[filepath.ToSlash(rel)] = string(text)
		return err
	}

	top, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range top {
		if err := read(path); err != nil {
			t.Fatal(err)
		}
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".md" {
			return err
		}
		return read(path)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) < 20 {
		t.Fatalf("only %d documents", len(pages))
	}
	return pages
}

// anchors are the places in a page that a link may name, as GitHub makes them of
// headings.
func anchors(page string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
		text := strings.ToLower(strings.TrimSpace(m[1]))
		all[strings.ReplaceAll(noSlug.ReplaceAllString(text, ""), " ", "-")] = true
	}
	return all
}

// TestDocumentsLinkToWhatIsThere: files and headings.
func TestDocumentsLinkToWhatIsThere(t *testing.T) {
	pages := documents(t)
	for name, page := range pages {
		for _, m := range link.FindAllStringSubmatch(fenced.ReplaceAllString(page, ""), -1) {
			file, anchor, _ := strings.Cut(m[1], "#")
			if strings.Contains(file, "://") || strings.HasPrefix(file, "mailto:") {
				continue
			}
			to := name
			if file != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(name), file))
			}
			if _, err := os.Stat(filepath.Join("..", "..", to)); err != nil {
				t.Errorf("%s links to %s: %v", name, m[1], err)
				continue
			}
			if anchor != "" && !anchors(pages[to])[anchor] {
				t.Errorf("%s links to %s, and %s has no such heading", name, m[1], to)
			}
		}
	}
}

// TestDocumentsAreWrapped: lines of text end at about 100 columns. Tables, code and
// lists of requirements have lines as long as they need.
func TestDocumentsAreWrapped(t *testing.T) {
	const widest = 110
	for name, page := range documents(t) {
		if name == "docs/develop/requirements.md" {
			continue // a line of it is one requirement
		}
		for i, line := range strings.Split(fenced.ReplaceAllStringFunc(page, func(code string) string {
			return strings.Repeat("\n", strings.Count(code, "\n"))
		}), "\n") {
			inOne := regexp.MustCompile("^[-*0-9. ]*(`[^`]*`|\\[[^\\]]*\\]\\([^)]*\\))[.,;:)]*$").MatchString(line)
			if len([]rune(line)) > widest && !strings.HasPrefix(line, "    ") && !strings.HasPrefix(strings.TrimSpace(line), "|") && !inOne {
				t.Errorf("%s:%d has %d columns", name, i+1, len([]rune(line)))
			}
		}
	}
}
