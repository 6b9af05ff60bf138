package recent

import "testing"

func TestTheOldestIsForgotten(t *testing.T) {
	s := New(2)
	for i, want := range []struct {
		id  string
		new bool
	}{{"a", true}, {"a", false}, {"b", true}, {"c", true}, {"a", true}, {"c", false}} {
		if got := s.Add(want.id); got != want.new {
			t.Fatalf("step %d: Add(%s) = %v", i, want.id, got)
		}
	}
	s.Remove("c")
	if s.Has("c") || !s.Add("c") {
		t.Fatal("removed id is still known")
	}
}
