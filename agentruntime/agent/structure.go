package agent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

func requiredRule(operand any, _ map[string]any) (inputSchema, error) {
	list, ok := operand.([]any)
	if !ok {
		return inputSchema{}, errors.New("must be an array")
	}

	var names []string
	for _, n := range list {
		name, ok := n.(string)
		if !ok {
			return inputSchema{}, errors.New("must name members")
		}
		names = append(names, name)
	}

	return inputSchema{exact: true, rules: []rule{func(value any, path string) string {
		object, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, has := object[name]; return has })
		if len(missing) == 0 {
			return ""
		}
		return at(path, "missing "+strings.Join(missing, ", "))
	}}}, nil
}

// compileMembers compiles the schemas that are members of an object.
func compileMembers(operand any) (map[string]inputSchema, bool, error) {
	object, ok := operand.(map[string]any)
	if !ok {
		return nil, false, errors.New("must be an object")
	}

	all, exact := map[string]inputSchema{}, true
	for _, name := range sortedNames(object) {
		s, err := compile(object[name])
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", name, err)
		}
		all[name], exact = s, exact && s.exact
	}

	return all, exact, nil
}

// compileItems compiles the schemas that are items of an array.
func compileItems(operand any) (all []inputSchema, exact bool, err error) {
	list, ok := operand.([]any)
	if !ok {
		return nil, false, errors.New("must be an array")
	}

	exact = true
	for _, item := range list {
		s, err := compile(item)
		if err != nil {
			return nil, false, err
		}
		all, exact = append(all, s), exact && s.exact
	}

	return all, exact, nil
}

// eachMember is a rule about the members of an object, in the order of their names.
func eachMember(exact bool, check func(name string, value any, path string) string) inputSchema {
	return inputSchema{exact: exact, rules: []rule{func(value any, path string) string {
		object, ok := value.(map[string]any)
		if !ok {
			return ""
		}
		for _, name := range sortedNames(object) {
			if wrong := check(name, object[name], path); wrong != "" {
				return wrong
			}
		}
		return ""
	}}}
}

func propertiesRule(operand any, _ map[string]any) (inputSchema, error) {
	known, exact, err := compileMembers(operand)
	if err != nil {
		return inputSchema{}, err
	}
	return eachMember(exact, func(name string, value any, path string) string {
		return known[name].wrong(value, below(path, name))
	}), nil
}

func additionalRule(operand any, schema map[string]any) (inputSchema, error) {
	rest, err := compile(operand)
	if err != nil {
		return inputSchema{}, err
	}
	if schema["patternProperties"] != nil {
		return inputSchema{}, nil // which members are additional is not known here
	}

	known, _ := schema["properties"].(map[string]any)
	return eachMember(rest.exact, func(name string, value any, path string) string {
		if _, is := known[name]; is {
			return ""
		}
		if operand == false {
			return at(path, "unknown "+name)
		}
		return rest.wrong(value, below(path, name))
	}), nil
}

func itemsRule(operand any, schema map[string]any) (inputSchema, error) {
	item, err := compile(operand)
	if err != nil {
		return inputSchema{}, err
	}

	// Those before are the affair of a keyword that is not checked here.
	prefix, _ := schema["prefixItems"].([]any)
	return inputSchema{exact: item.exact, rules: []rule{func(value any, path string) string {
		list, _ := value.([]any)
		for i := len(prefix); i < len(list); i++ {
			if wrong := item.wrong(list[i], below(path, strconv.Itoa(i))); wrong != "" {
				return wrong
			}
		}
		return ""
	}}}, nil
}

func allRule(operand any, _ map[string]any) (inputSchema, error) {
	branches, exact, err := compileItems(operand)
	if err != nil {
		return inputSchema{}, err
	}
	all := inputSchema{exact: exact}
	for _, b := range branches {
		all.rules = append(all.rules, b.rules...)
	}
	return all, nil
}

func anyRule(operand any, _ map[string]any) (inputSchema, error) {
	branches, exact, err := compileItems(operand)
	if err != nil {
		return inputSchema{}, err
	}
	any := predicate(func(value any) bool {
		return slices.ContainsFunc(branches, func(b inputSchema) bool { return b.wrong(value, "") == "" })
	}, "anyOf does not hold")
	any.exact = exact
	return any, nil
}

func oneRule(operand any, _ map[string]any) (inputSchema, error) {
	branches, exact, err := compileItems(operand)
	if err != nil {
		return inputSchema{}, err
	}
	one := predicate(func(value any) bool {
		some, certain := false, 0
		for _, b := range branches {
			if b.wrong(value, "") == "" {
				some = true
				if b.exact {
					certain++
				}
			}
		}
		// A branch that accepts too much must not make a good value ambiguous.
		return some && certain <= 1
	}, "oneOf does not hold")
	one.exact = exact
	return one, nil
}

func sortedNames[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
