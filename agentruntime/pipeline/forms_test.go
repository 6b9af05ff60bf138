package pipeline

import (
	"regexp"
	"testing"
)

// FuzzForms holds the forms of names to their definitions.
func FuzzForms(f *testing.F) {
	for _, s := range []string{
		"", "a", "Z9", "9a", "-a", ".", "a.b", "a:b", "a/b", "a#b", "a@b", "a b", "a\n", "ü", "aü", "a_b-c",
		"urn:x", "urn:", ":x", "u", "9:x", "h+t.p-1:x:y", "u_n:x", "urn:a b", "urn:\x7f", "urn:~!", "urn:\n",
	} {
		f.Add(s)
	}
	forms := []struct {
		name string
		is   func(string) bool
		want *regexp.Regexp
	}{
		{"tag", isTag, regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/#-]*$`)},
		{"name", isHandlerName, regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@-]*$`)},
		{"namespace", isNamespace, regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:[!-~]+$`)},
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, form := range forms {
			if got := form.is(s); got != form.want.MatchString(s) {
				t.Errorf("%q as a %s: %v", s, form.name, got)
			}
		}
	})
}
