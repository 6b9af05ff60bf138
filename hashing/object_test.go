package hashing

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

func TestObject(t *testing.T) {
	doc := []byte(` { "b" : [1.0, 2] , "\u0061":{"y":1,"x":2},"c":"\u00e9"} `)
	o := new(Object)
	if err := o.Parse(doc); err != nil {
		t.Fatal(err)
	}
	if got := string(o.text); got != `{"a":{"x":2,"y":1},"b":[1,2],"c":"é"}` || o.IsCanonical() {
		t.Errorf("canonical form %s, of itself: %v", got, o.IsCanonical())
	}
	for name, want := range map[string][2]string{
		"a": {`{"y":1,"x":2}`, `{"x":2,"y":1}`},
		"b": {`[1.0, 2]`, `[1,2]`},
		"c": {`"\u00e9"`, `"é"`},
	} {
		if string(o.Value(name)) != want[0] || string(o.CanonicalValue(name)) != want[1] {
			t.Errorf("%s is %s, canonically %s", name, o.Value(name), o.CanonicalValue(name))
		}
	}
	if o.Value("x") != nil || o.CanonicalValue("") != nil {
		t.Error("a member that is none")
	}
	if got := string(o.Without("a", "c", "z")); got != `{"b":[1,2]}` {
		t.Errorf("without a and c: %s", got)
	}
	// Another document in its room leaves nothing of the one before.
	if err := o.Parse([]byte(`{"z":1}`)); err != nil || o.Value("a") != nil || string(o.Without()) != `{"z":1}` {
		t.Errorf("parsed again: %s, %v", o.text, err)
	}
	if err := o.Parse([]byte(`{"y":1,"x":{"z":2},`)); err == nil || o.Value("z") != nil || o.Value("y") != nil {
		t.Errorf("a member after %v", err)
	}
	for _, other := range []string{`[{"a":1}]`, `"a"`, `null`, `7`} {
		if err := o.Parse([]byte(other)); !errors.Is(err, ErrNotObject) {
			t.Errorf("%s: %v", other, err)
		}
	}
}

// An Object is what encoding/json and the reference engine make of a document.
func FuzzObject(f *testing.F) {
	f.Add(smallRequest)
	f.Add([]byte(`{"b":[1.0,{"z":1,"y":2}],"a":{"y":1,"x":{}},"\u20ac":"\u00e9","":null}`))
	f.Add([]byte(`[{"a":1},{"b":2}]`))
	// What a fast path may take for canonical: the ends of every form of number, of
	// the escapes, and of the order by UTF-16.
	f.Add([]byte(`{"a":[1e+21,1e21,100000000000000000000,-0,0,-1e-7,0.000001,5e-324,4.9406564584124654e-324,1.7976931348623157e+308,1E400]}`))
	f.Add([]byte(`{"a":[9007199254740991,-9007199254740991,9007199254740992,123456789012345.6,0.1,-0.0,333333333.3333333]}`))
	f.Add([]byte("{\"\\u000b\":\"\\b\\f\\n\\r\\t\\u0000\\u001f\",\"\u2028\u2029\u007f/\":\"\\/\",\"\ufeff\":\"\ufffd\"}"))
	f.Add([]byte("{\"a\":{\"\U0001f600\":1,\"\ue000\":2},\"\U0001f600\":1,\"\uffff\":2,\"\ud7ff\":\"\\ud800\"}"))
	f.Fuzz(func(t *testing.T, doc []byte) {
		o := new(Object)
		err := o.Parse(doc)
		canonical, wantErr := jcsCanonical(doc)
		if errors.Is(err, ErrNotObject) && canonical[0] != '{' {
			return
		}
		if (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
			t.Fatalf("%v, want %v", err, wantErr)
		}
		if err != nil {
			return
		}
		if !bytes.Equal(o.text, canonical) || o.IsCanonical() != bytes.Equal(doc, canonical) {
			t.Fatalf("%q, want %q", o.text, canonical)
		}
		var members map[string]json.RawMessage
		if err := json.Unmarshal(doc, &members); err != nil {
			t.Fatal(err)
		}
		count := 0
		var all, some ArrayHasher
		all.AddObject(o)
		if want, _ := Sum([]byte("[" + string(doc) + "]")); all.Sum() != want {
			t.Fatal("another hash")
		}
		for name, value := range o.Members() {
			count++
			if !bytes.Equal(value, members[name]) || !bytes.Equal(value, o.Value(name)) {
				t.Fatalf("%q is %q, want %q", name, value, members[name])
			}
			if want, err := jcsCanonical(value); err != nil || !bytes.Equal(o.CanonicalValue(name), want) {
				t.Fatalf("%q is canonically %q, want %q", name, o.CanonicalValue(name), want)
			}
		}
		if count != len(members) {
			t.Fatalf("%d members, want %d", count, len(members))
		}
		for name := range members {
			delete(members, name)
			rest, _ := json.Marshal(members)
			want, err := Canonical(rest)
			if got := o.Without(name); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("without %q: %q, want %q", name, got, want)
			}
			some.AddObjectWithout(o, name)
			if sum, _ := Sum([]byte("[" + string(want) + "]")); some.Sum() != sum {
				t.Fatal("another hash")
			}
			break
		}
	})
}
