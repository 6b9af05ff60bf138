package sandbox

import (
	"bytes"
	"encoding/json"
	"os"
	"testing"

	"github.com/lightwork-market/lightwork/hashing"
)

func TestCheckPassesHere(t *testing.T) {
	needsConfinement(t)
	for _, f := range Check(t.Context(), testOptions(t)) {
		if !f.OK {
			t.Errorf("%+v", f)
		}
	}
	opts := testOptions(t)
	opts.CgroupRoot = t.TempDir()
	bad := 0
	for _, f := range Check(t.Context(), opts) {
		if !f.OK {
			bad++
			if f.Fix == "" || f.Detail == "" {
				t.Errorf("%s does not say what to do", f.Name)
			}
		}
	}
	if bad != 2 {
		t.Errorf("%d features missing without cgroups", bad)
	}
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
