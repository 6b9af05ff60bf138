package routing

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// splitLabels takes the values that a text gives by name, as in "text: good
// morning, to: fr", out of it. A value goes on to the next name or the end of
// its line. Names are read without regard to case.
func splitLabels(need string, names []string) (values map[string]string, rest string) {
	values = map[string]string{}
	if len(names) == 0 {
		return values, need
	}
	exact := map[string]string{}
	quoted := make([]string, len(names))
	for i, name := range names {
		exact[strings.ToLower(name)], quoted[i] = name, regexp.QuoteMeta(name)
	}

	label := regexp.MustCompile(`(?i)(?:^|[\s,;({])(` + strings.Join(quoted, "|") + `)\s*[:=][ \t]*`)
	for line := range strings.Lines(need) {
		found := label.FindAllStringSubmatchIndex(line, -1)
		if len(found) == 0 {
			rest += line
			continue
		}
		rest += line[:found[0][0]] + "\n"

		for i, at := range found {
			end := len(line)
			if i+1 < len(found) {
				end = found[i+1][0]
			}
			name := exact[strings.ToLower(line[at[2]:at[3]])]
			if _, twice := values[name]; !twice {
				values[name] = strings.Trim(line[at[1]:end], " \t\r\n,;")
			}
		}
	}

	return values, rest
}

// valueOf reads a value of a schema's type as it was written; a string may be
// in quotes.
func valueOf(text, typ string) (any, error) {
	if typ == "string" {
		if n := len(text); n >= 2 && text[0] == text[n-1] && strings.ContainsRune("\"'`", rune(text[0])) {
			return text[1 : n-1], nil
		}
		return text, nil
	}
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("%.80q is no %s", text, typ)
	}
	return json.RawMessage(text), nil // the schema judges it
}
