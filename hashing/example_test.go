package hashing_test

import (
	"errors"
	"fmt"

	"github.com/lightwork-market/lightwork/hashing"
)

// Two spellings of one document have one canonical form, and so one digest.
func ExampleSum() {
	a, err := hashing.Sum([]byte(`{"b": 1.0, "a": "caf\u00e9"}`))
	if err != nil {
		fmt.Println(err)
	}
	b, err := hashing.Sum([]byte(`{"a":"café","b":1}`))
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(a == b)
	fmt.Println(a)
	// Output:
	// true
	// sha256:d54b12e4d04fc4825c9cf655ea7fc9646e75eaf3e0e1bb726eead37376c313fd
}

func ExampleCanonical() {
	doc, err := hashing.Canonical([]byte(`{"b": 1.50, "a": [true, null]}`))
	fmt.Println(string(doc), err)

	// What two readers could take for different values is refused.
	_, err = hashing.Canonical([]byte(`{"price": 1, "price": 2}`))
	var refused *hashing.SyntaxError
	fmt.Println(errors.As(err, &refused), err)
	// Output:
	// {"a":[true,null],"b":1.5} <nil>
	// true JSON at byte 13: duplicate key "price"
}
