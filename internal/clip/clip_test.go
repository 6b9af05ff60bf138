package clip

import "testing"

func TestClipKeepsRunesWhole(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 5, "abc"}, {"abc", 2, "ab"}, {"aé", 2, "a"}, {"日本", 4, "日"}, {"日", 2, ""}} {
		if got := Text(tt.in, tt.n); got != tt.want {
			t.Errorf("Text(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}
