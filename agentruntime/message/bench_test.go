package message

import "testing"

func BenchmarkParse(b *testing.B) {
	doc := []byte(example(b, "response"))
	b.SetBytes(int64(len(doc)))
	for b.Loop() {
		if _, err := Parse(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	m := parse(b, example(b, "response"))
	for b.Loop() {
		if _, err := Encode(m); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkSecretSearch(b *testing.B) {
	doc := []byte(example(b, "response"))
	for b.Loop() {
		if err := noSecret(doc); err != nil {
			b.Fatal(err)
		}
	}
}
