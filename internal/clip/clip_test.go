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

func TestLineControlsNoTerminal(t *testing.T) {
	for _, tt := range []struct {
		in   string
		n    int
		want string
	}{
		{"abc", 3, "abc"},
		{"abcd", 3, "abc..."},
		{"no\x1b[2J\nat\tall\r\n", 40, "no[2J at all  "},
		{"日本語", 2, "日本..."},
		{"\u202egnol\xff\u200b", 40, "gnol"},
		{"", 3, ""},
	} {
		if got := Line(tt.in, tt.n); got != tt.want {
			t.Errorf("Line(%q, %d) = %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}
