package code

import (
	"path"
	"strings"
)

// language is a language that the analyser recognizes.
type language struct {
	name     string
	hasRules bool   // it has rules of its own
	alias    string // other names and file extensions, between spaces
	syntax   syntax
	// scan finds symbols, imports and faults in the tokens of u.
	scan func(u *unit, content string)
}

func slashes(literal func(string, int, token) int, nest bool) syntax {
	return syntax{line: []string{"//"}, block: true, nest: nest, literal: literal}
}

// languages lists the recognized languages; the two without a name are for all
// others.
func languages() []language {
	return []language{
		{"Go", true, " go golang ", slashes(goLiteral, false), scanGo},
		{"Python", true, " python python3 py pyi pyw ", syntax{line: []string{"#"}, literal: pythonLiteral}, scanPython},
		{"JavaScript", true, " javascript js jsx mjs cjs node ecmascript ", slashes(scriptLiteral, false), scanScript},
		{"TypeScript", true, " typescript ts tsx mts cts ", slashes(scriptLiteral, false), scanScript},
		{"Rust", true, " rust rs ", slashes(rustLiteral, true), scanRust},
		{"", false, " c h cc cpp cxx c++ hpp cs c# csharp java kt kotlin swift scala dart php zig groovy objective-c m proto solidity sol ", slashes(plainLiteral, false), scanPlain},
		{"", false, " sh bash shell zsh ruby rb perl pl r elixir ex exs julia jl yaml yml toml make makefile cmake tcl nim ", syntax{line: []string{"#"}, literal: plainLiteral}, scanPlain},
	}
}

// languageOf returns the language of a chunk: the declared one, else the one of the
// file name, else the one that the comments suggest.
func languageOf(declared, file, content string) *language {
	all := languages()
	find := func(key string) *language {
		for i := range all {
			if l := &all[i]; key != "" && !strings.Contains(key, " ") && strings.Contains(l.alias, " "+key+" ") {
				return l
			}
		}
		return nil
	}
	declared = strings.ToLower(strings.TrimSpace(declared))
	l := find(declared)
	if l == nil && declared == "" {
		l = find(strings.ToLower(strings.TrimPrefix(path.Ext(file), ".")))
	}
	if l == nil {
		l = &all[len(all)-2]
		if strings.Count(content, "# ") > strings.Count(content, "//") {
			l = &all[len(all)-1]
		}
	}

	if l.name == "" {
		l.name = "plain text"
		if declared != "" {
			l.name = cut(declared, 64)
		} else if ext := path.Ext(file); ext != "" {
			l.name = cut(ext, 16) + " file"
		}
	}

	return l
}
