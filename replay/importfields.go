package replay

import (
	"encoding/json"
	"fmt"
	"time"
)

// These readers are for documents that others wrote: a field that may be there.

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

// word is a short string, or empty where there is none.
func (o *object) word(name string) string {
	var s string
	if o.err != nil || o.absent(name) || json.Unmarshal(o.raw(name), &s) != nil || len(s) > maxName {
		return ""
	}
	return s
}

// either is a field's own text; null where it is absent.
func (o *object) either(name string) json.RawMessage {
	if raw := o.raw(name); raw != nil {
		return raw
	}
	return json.RawMessage("null")
}

// first is the text of the first field that is there.
func (o *object) first(names ...string) json.RawMessage {
	for _, name := range names {
		if raw := o.raw(name); raw != nil {
			return raw
		}
	}
	return nil
}

// anyTime is the first of the fields that is a time.
func (o *object) anyTime(names ...string) *time.Time {
	for _, name := range names {
		var t Time
		if o.err == nil && !o.absent(name) && json.Unmarshal(o.raw(name), &t) == nil {
			return &t.Time
		}
	}
	return nil
}

// offset is a step's t in milliseconds, 0 without one.
func (o *object) offset() int64 {
	if o.absent("t") {
		return 0
	}
	return o.integer("t", 0, maxOffset)
}

// duration is how long a step took in milliseconds, 0 where it does not say.
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
