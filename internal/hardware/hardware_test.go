package hardware

import (
	"os"
	"testing"
	"testing/fstest"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

func file(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }

func TestDetect(t *testing.T) {
	requirements.Covers(t, "OA-7.2")
	meminfo := file("MemTotal:       32614532 kB\nMemFree: 1 kB\n")
	for name, c := range map[string]struct {
		root fstest.MapFS
		want Hardware
	}{
		"nothing is said": {fstest.MapFS{}, Hardware{GPU: "none"}},
		"memory":          {fstest.MapFS{"proc/meminfo": meminfo}, Hardware{MemoryGB: 31, GPU: "none"}},
		"a container of version 2": {
			fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": file("2147483648\n")}, Hardware{MemoryGB: 2, GPU: "none"},
		},
		"no limit in version 2": {
			fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory.max": file("max\n")}, Hardware{MemoryGB: 31, GPU: "none"},
		},
		"no limit in version 1": {
			fstest.MapFS{"proc/meminfo": meminfo, "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, Hardware{MemoryGB: 31, GPU: "none"},
		},
		"the larger of two cards": {
			fstest.MapFS{
				"sys/class/drm/card0/device/vendor":              file("0x1002\n"),
				"sys/class/drm/card0/device/mem_info_vram_total": file("8573157376\n"),
				"sys/class/drm/card1/device/vendor":              file("0x1002\n"),
				"sys/class/drm/card1/device/mem_info_vram_total": file("17163091968\n"),
			}, Hardware{GPU: "AMD", VRAMGB: 16},
		},
		"a card of the mainboard": {fstest.MapFS{"sys/class/drm/card0/device/vendor": file("0x1a03\n")}, Hardware{GPU: "none"}},
	} {
		if got := Detect(t.Context(), c.root); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

func TestThisMachine(t *testing.T) {
	if got := Detect(t.Context(), os.DirFS("/")); got.GPU == "" || got.MemoryGB < 0 {
		t.Errorf("%+v", got)
	}
}

func TestNvidia(t *testing.T) {
	for list, want := range map[string]int64{
		"": 0, "garbage": 0, "NVIDIA T4, many\n": 0,
		"NVIDIA T4, 15360\nNVIDIA RTX A6000, 49140\n": 49140 << 20,
	} {
		name, vram := nvidia([]byte(list))
		if vram != want || (name == "NVIDIA RTX A6000") != (want > 0) {
			t.Errorf("%q: %q, %d", list, name, vram)
		}
	}
}
