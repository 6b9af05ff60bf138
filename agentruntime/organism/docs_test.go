package organism

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestDocsExample: the file that docs/build-agents/thinking-agents.md shows, in two parts, is
// one that works.
func TestDocsExample(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "build-agents", "thinking-agents.md"))
	if err != nil {
		t.Fatal(err)
	}
	var file strings.Builder
	for part := range strings.SplitSeq(string(doc), "```yaml\n") {
		if text, _, ok := strings.Cut(part, "```"); ok && file.Len() == 0 && strings.HasPrefix(text, "organism:") || ok && file.Len() > 0 {
			file.WriteString(text)
		}
	}
	o, err := Parse([]byte(file.String()), "thinking-agents.md")
	if err != nil {
		t.Fatalf("%v\n%s", err, file.String())
	}
	if _, ok := o.Listener("research-agent"); !ok || len(o.Profiles) == 0 {
		t.Errorf("read %+v", o)
	}
}
