package replay

import (
	"encoding/json"
	"fmt"
	"time"
)

// These readers are for the documents of other programs, whose fields may be absent.

// objects reads a list of objects.
func (o *object) objects(name string) ([]*object, error) {
	var list []json.RawMessage
	o.decode(name, &list, "a list")
	if o.err == nil && len(list) > (Limits{}).orDefault().Lines/2 {
		o.fail(name, "longer than a record can be")
	}
	if o.err != nil {
		return nil, o.err
	}

	objects := make([]*object, len(list))
	for i, raw := range list {
		if objects[i] = newObject(raw); objects[i].err != nil {
			return nil, fmt.Errorf("%s[%d]: %w", name, i, objects[i].err)
		}
	}

	return objects, nil
}

// shortText returns a short string, or "" if the field is anything else.
func (o *object) shortText(name string) string {
	var s string
	if o.err != nil || o.absent(name) || json.Unmarshal(o.raw(name), &s) != nil || len(s) > maxName {
		return ""
	}
	return s
}

// rawOrNull returns the text of a field, or null if it is absent.
func (o *object) rawOrNull(name string) json.RawMessage {
	if raw := o.raw(name); raw != nil {
		return raw
	}
	return json.RawMessage("null")
}

// first returns the text of the first field that is present.
func (o *object) first(names ...string) json.RawMessage {
	for _, name := range names {
		if raw := o.raw(name); raw != nil {
			return raw
		}
	}
	return nil
}

// anyTime returns the first of the fields that is a time.
func (o *object) anyTime(names ...string) *time.Time {
	for _, name := range names {
		var t Time
		if o.err == nil && !o.absent(name) && json.Unmarshal(o.raw(name), &t) == nil {
			return &t.Time
		}
	}
	return nil
}

// offset returns the t of a step in milliseconds, 0 if it is absent.
func (o *object) offset() int64 {
	if o.absent("t") {
		return 0
	}
	return o.integer("t", 0, maxOffset)
}

// duration returns the duration_ms of a step, 0 if it is absent or invalid.
func (o *object) duration() int64 {
	n := newObject(o.whole)
	if n.absent("duration_ms") {
		return 0
	}
	if ms := n.integer("duration_ms", 0, maxOffset); n.err == nil {
		return ms
	}
	return 0
}
