package nip01

import (
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/nbd-wtf/go-nostr"
)

// filter parses one filter object. Unknown fields are refused with ErrUnsupported,
// because ignoring one would widen the filter.
func (p *parser) filter() (f nostr.Filter, err error) {
	if err := p.open('{'); err != nil {
		return f, err
	}

	for p.more('}') {
		name, err := p.string()
		if err != nil {
			return f, err
		}
		if err := p.filterField(&f, name); err != nil {
			return f, err
		}
	}
	return f, p.open('}')
}

func (p *parser) filterField(f *nostr.Filter, name string) (err error) {
	var n int64
	switch name {
	case "ids":
		f.IDs, err = p.hexList()
	case "authors":
		f.Authors, err = p.hexList()
	case "kinds":
		f.Kinds, err = p.kinds()
	case "since":
		f.Since, err = p.time()
	case "until":
		f.Until, err = p.time()
	case "limit":
		n, err = p.integer(math.MaxInt32)
		f.Limit, f.LimitZero = int(n), err == nil && n == 0
	default:
		if !isTagName(name) {
			return ErrUnsupported
		}
		return p.tagFilter(f, name[1:])
	}

	return err
}

// isTagName reports whether name is # and one English letter.
func isTagName(name string) bool {
	return len(name) == 2 && name[0] == '#' && IsIndexed(name[1:])
}

// IsIndexed reports whether filters can use tags of this name, a single English
// letter.
func IsIndexed(tag string) bool {
	return len(tag) == 1 && (tag[0]|0x20) >= 'a' && (tag[0]|0x20) <= 'z'
}

func (p *parser) tagFilter(f *nostr.Filter, tag string) (err error) {
	var list []string
	if tag == "e" || tag == "p" { // "MUST contain exact 64-character lowercase hex values"
		list, err = p.hexList()
	} else {
		list, err = p.strings(p.lim.MaxFilterValues)
	}

	if err != nil {
		return err
	}
	if f.Tags == nil {
		f.Tags = nostr.TagMap{}
	}
	f.Tags[tag] = list
	return nil
}

func (p *parser) hexList() ([]string, error) {
	list, err := p.strings(p.lim.MaxFilterValues)
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if !isHex(s, 64) {
			return nil, ErrShape
		}
	}
	return list, nil
}

func (p *parser) kinds() ([]int, error) {
	if err := p.open('['); err != nil {
		return nil, err
	}

	list := []int{}
	for p.more(']') {
		if len(list) == p.lim.MaxFilterValues {
			return nil, tooManyValues(p.lim.MaxFilterValues)
		}
		n, err := p.integer(maxKind)
		if err != nil {
			return nil, err
		}
		list = append(list, int(n))
	}

	return list, p.open(']')
}

func (p *parser) time() (*nostr.Timestamp, error) {
	n, err := p.integer(maxTime)
	if err != nil {
		return nil, err
	}
	t := nostr.Timestamp(n)
	return &t, nil
}

// AppendFilter appends the filter as a JSON object, its fields in a fixed
// order.
func AppendFilter(dst []byte, f *nostr.Filter) []byte {
	dst = append(dst, '{')
	start := len(dst)
	field := func(name string) {
		if len(dst) > start {
			dst = append(dst, ',')
		}
		dst = append(dst, '"')
		dst = append(dst, name...)
		dst = append(dst, '"', ':')
	}
	list := func(name string, values []string) {
		if values != nil {
			field(name)
			dst = appendStrings(dst, values)
		}
	}
	list("ids", f.IDs)
	list("authors", f.Authors)
	if f.Kinds != nil {
		field("kinds")
		dst = append(dst, '[')
		for i, k := range f.Kinds {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = strconv.AppendInt(dst, int64(k), 10)
		}
		dst = append(dst, ']')
	}

	for _, tag := range slices.Sorted(maps.Keys(f.Tags)) {
		list("#"+tag, f.Tags[tag])
	}
	if f.Since != nil {
		field("since")
		dst = strconv.AppendInt(dst, int64(*f.Since), 10)
	}

	if f.Until != nil {
		field("until")
		dst = strconv.AppendInt(dst, int64(*f.Until), 10)
	}

	if f.Limit > 0 || f.LimitZero {
		field("limit")
		dst = strconv.AppendInt(dst, int64(f.Limit), 10)
	}

	return append(dst, '}')
}

func appendStrings(dst []byte, list []string) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}
