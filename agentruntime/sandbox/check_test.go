package sandbox

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
)

// TestCheck: what is found is the firmest level that works, and what lacks
// something for the level that is asked for says what to do.
func TestCheck(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		opts := testOptions(t)
		if testLevel != LevelFull {
			opts.CgroupRoot = t.TempDir() // as on a machine without cgroups
		}
		level, all := Check(t.Context(), opts, testLevel)
		if !level.AtLeast(testLevel) || level == LevelFull && testLevel != LevelFull {
			t.Errorf("level %q", level)
		}
		for _, f := range all {
			if !f.OK {
				t.Errorf("%+v", f)
			}
		}
		if testLevel == LevelFull {
			return
		}

		level, all = Check(t.Context(), opts, LevelFull)
		bad := 0
		for _, f := range all {
			if !f.OK {
				bad++
				if f.Fix == "" || f.Detail == "" {
					t.Errorf("%s does not say what to do", f.Name)
				}
			}
		}
		if level != "" || bad < 2 {
			t.Errorf("asked for full confinement without cgroups: level %q, %d features missing", level, bad)
		}
	})
}

func TestHostManifest(t *testing.T) {
	doc, digest, err := HostManifest()
	if err != nil {
		t.Fatal(err)
	}
	canonical, err := hashing.Canonical(doc)
	if err != nil || !bytes.Equal(canonical, doc) || hashing.Bytes(doc).String() != digest {
		t.Errorf("not canonical or not its digest: %v", err)
	}
	var m hostManifest
	if err := json.Unmarshal(doc, &m); err != nil {
		t.Fatal(err)
	}
	found := map[string]hostFile{}
	for _, f := range m.Tools {
		found[f.Name] = f
	}
	sh, err := os.ReadFile(found["sh"].Path)
	if err != nil || found["sh"].SHA256 != hashing.Bytes(sh) || len(m.Libc) == 0 {
		t.Errorf("sh is %+v, libc %v, %v", found["sh"], m.Libc, err)
	}
}
