package pipeline

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Profile is a name for what a thread may reach.
type Profile struct {
	Name string
	// Handlers are the reachable handlers; where two take the same tag, the
	// one named first gets it.
	Handlers []string
	// Retention is how long the journal keeps this profile's entries. Zero:
	// for ever.
	Retention Retention
}

// Route is one row of a dispatch table.
type Route struct {
	Tag     string `json:"tag"`
	Handler string `json:"handler"`
}

// Table is a profile's static dispatch table: a closed world of payload tags,
// each with one handler. It cannot change.
type Table struct {
	profile   string
	retention Retention
	routes    map[string]string
	// takers are all handlers of the profile that take a tag. The first one gets
	// requests; an answer may go to another one that asked.
	takers map[string][]string
}

// newTable builds the table of a profile over the given handlers. shadowed are
// the routes that lost to an earlier handler with the same tag; a loader warns
// of them.
func newTable(p Profile, handlers []Handler) (t *Table, shadowed []Route, err error) {
	fail := func(err error) (*Table, []Route, error) {
		return nil, nil, &ConfigError{"profile " + p.Name, err}
	}
	if err := checkName(p.Name); err != nil {
		return fail(err)
	}
	byName := map[string]Handler{}
	for _, h := range handlers {
		byName[h.Name] = h
	}
	t = &Table{profile: p.Name, retention: p.Retention.orDefault(), routes: map[string]string{}, takers: map[string][]string{}}
	if err := t.retention.check(); err != nil {
		return fail(err)
	}

	seen := map[string]bool{}
	for _, name := range p.Handlers {
		if isWildcard(name) {
			return fail(ErrWildcard)
		}
		h, ok := byName[name]
		if !ok {
			return fail(fmt.Errorf("there is no handler %q", name))
		}
		if seen[name] {
			return fail(fmt.Errorf("handler %q is named twice", name))
		}

		seen[name] = true
		for _, tag := range h.Tags {
			t.takers[tag] = append(t.takers[tag], name)
			if _, taken := t.routes[tag]; taken {
				shadowed = append(shadowed, Route{tag, name})
				continue
			}
			t.routes[tag] = name
		}
	}

	return t, shadowed, nil
}

// route finds the handler of a message by its header alone.
func (t *Table) route(h Header) (handler string, ok bool) {
	handler, ok = t.routes[h.Tag]
	return handler, ok
}

// takes reports whether an answer with this tag may go to the handler: the
// profile has it, and it takes the tag.
func (t *Table) takes(handler, tag string) bool { return slices.Contains(t.takers[tag], handler) }

// Profile returns the name of the profile the table was built for.
func (t *Table) Profile() string { return t.profile }

// Routes returns all rows, sorted by tag.
func (t *Table) Routes() []Route {
	rows := make([]Route, 0, len(t.routes))
	for tag, handler := range t.routes {
		rows = append(rows, Route{tag, handler})
	}
	slices.SortFunc(rows, func(a, b Route) int { return cmp.Compare(a.Tag, b.Tag) })
	return rows
}

// Covers reports whether t has every route of other, to the same handler.
func (t *Table) Covers(other *Table) bool {
	for tag, handler := range other.routes {
		if t.routes[tag] != handler {
			return false
		}
	}
	return true
}

// restrict returns the table with only the tags in keep.
func (t *Table) restrict(keep []string) *Table {
	routes, takers := maps.Clone(t.routes), maps.Clone(t.takers)
	maps.DeleteFunc(routes, func(tag, _ string) bool { return !slices.Contains(keep, tag) })
	maps.DeleteFunc(takers, func(tag string, _ []string) bool { return !slices.Contains(keep, tag) })
	return &Table{profile: t.profile, retention: t.retention, routes: routes, takers: takers}
}

// isWildcard recognises the spellings that configurations use for "every".
func isWildcard(s string) bool {
	return strings.ContainsAny(s, "*?") || s == "all" || s == "any"
}

func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("name is empty")
	case isWildcard(name):
		return ErrWildcard
	case len(name) > maxNameLength || !isHandlerName(name):
		return fmt.Errorf("name %.80q has a bad form", name)
	}
	return nil
}

func checkTag(tag string) error {
	switch {
	case isWildcard(tag):
		return ErrWildcard
	case len(tag) > maxNameLength || !isTag(tag):
		return fmt.Errorf("payload tag %.80q has a bad form", tag)
	}
	return nil
}
