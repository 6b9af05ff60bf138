package toolschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// explosion is a chain of n definitions, each of which names the next twice. The
// names of the references have escapes that stand for those of the chain, and are
// themselves those of definitions that are empty.
func explosion(n int) string {
	var defs strings.Builder
	for i := range n {
		fmt.Fprintf(&defs, `"a%d":{"allOf":[{"$ref":"#/$defs/%%61%d"},{"$ref":"#/$defs/%%61%d"}]},"%%61%d":{},`, i, i+1, i+1, i)
	}
	fmt.Fprintf(&defs, `"a%d":{},"%%61%d":{}`, n, n)
	return `{"$ref":"#/$defs/%610","$defs":{` + defs.String() + `}}`
}

// TestEscapedReferences: what is counted and searched for secrets is what the
// validator goes to.
func TestEscapedReferences(t *testing.T) {
	requirements.Covers(t, "K-38")
	for name, doc := range map[string]string{
		"explosion": explosion(200),
		"recursion": `{"$defs":{"a":{"properties":{"x":{"$ref":"#/$defs/%61"}}},"%61":{}}}`,
		"dangling":  `{"$ref":"#/$defs/%61","$defs":{"%61":{}}}`,
		"no escape": `{"$ref":"#/$defs/%6","$defs":{"%6":{}}}`,
	} {
		if _, err := Compile([]byte(doc)); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
	s, err := Compile([]byte(`{"properties":{"pw":{"$ref":"#/$defs/my%20p%61ss"}},"$defs":{"my pass":{"x-secret":true},"my%20p%61ss":{}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Secrets([]byte(`{"pw":"x"}`), stand); err != nil || string(got) != `{"pw":S}` {
		t.Errorf("%s, %v", got, err)
	}
}

// TestFormsAreBounded: a few bytes of a regular expression can stand for hundreds
// of megabytes.
func TestFormsAreBounded(t *testing.T) {
	bomb := strings.Repeat(".{1000}", 20)
	quoted, _ := json.Marshal(strings.Repeat(`\pL`, 900))
	for name, doc := range map[string]string{
		"repetitions":        `{"properties":{"a":{"pattern":"` + bomb + `"}}}`,
		"of a name":          `{"patternProperties":{"` + bomb + `":{}}}`,
		"within repetitions": `{"properties":{"a":{"pattern":"` + strings.Repeat("((a{10}b){10}){10}", 10) + `"}}}`,
		"classes":            `{"properties":{"a":{"pattern":` + string(quoted) + `}}}`,
		"text":               `{"properties":{"a":{"pattern":"` + strings.Repeat("a", maxPatternBytes+1) + `"}}}`,
		"one after another":  `{"allOf":[` + strings.Repeat(`{"pattern":".{1000}"},`, 10) + `{}]}`,
		"by references":      `{"allOf":[` + strings.Repeat(`{"$ref":"#/$defs/a"},`, 10) + `{}],"$defs":{"a":{"pattern":".{1000}"}}}`,
		"of names, together": `{"patternProperties":{"b.{1000}":{},"a.{1000}":{"pattern":".{1000}.{1000}.{1000}.{1000}"}},"propertyNames":{"pattern":".{1000}.{1000}.{1000}.{1000}"}}`,
	} {
		if _, err := Compile([]byte(doc)); !errors.Is(err, ErrSchema) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := Compile([]byte(`{"properties":{
		"a":{"pattern":"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"},
		"b":{"pattern":"^[\\p{L}\\p{N} _-]{1,256}$"},"c":{"pattern":"^(.{1,1000})?$"},"pattern":{"default":"("}}}`)); err != nil {
		t.Error(err)
	}
}

// TestFormValuesAreBounded: what a value of the format "regex" may say.
func TestFormValuesAreBounded(t *testing.T) {
	s, err := Compile([]byte(`{"properties":{"a":{"format":"regex"}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, good := range map[string]bool{
		"^a{1,3}$": true, "(": false, strings.Repeat(".{1000}", 20): false, strings.Repeat("a", maxPatternBytes+1): false,
	} {
		if err := s.Validate([]byte(`{"a":"` + text + `"}`)); (err == nil) != good {
			t.Errorf("%.20s: %v", text, err)
		}
	}
}
