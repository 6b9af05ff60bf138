package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

// install writes an agent's folder whose program leaves a mark when it runs.
func install(t *testing.T, dir string, change func(map[string]any)) (ran string) {
	t.Helper()
	f := fields()
	f["entrypoint"] = map[string]any{"type": "command", "value": "./run.sh"}
	if change != nil {
		change(f)
	}
	ran = filepath.Join(dir, "ran")
	for name, raw := range map[string][]byte{FileName: encode(t, f), "run.sh": []byte("#!/bin/sh\ntouch " + ran + "\n")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return ran
}

func TestApproval(t *testing.T) {
	requirements.Covers(t, "OSX-8")
	dir := filepath.Join(t.TempDir(), "words")
	install(t, dir, nil)
	read := func() *Manifest {
		m, err := Read(filepath.Join(dir, FileName))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, err := OpenApprovals(filepath.Join(t.TempDir(), "approvals"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Check(dir, read()); !errors.Is(err, ErrNotApproved) {
		t.Fatalf("nobody approved it: %v", err)
	}
	if _, err := a.Approve(dir, read(), []string{"filesystem:write:/"}, time.Now()); err == nil {
		t.Error("more was granted than asked for")
	}
	if _, err := a.Approve(dir, read(), []string{"network:egress:api.example.com"}, time.Now()); err != nil {
		t.Fatal(err)
	}
	ap, err := a.Check(dir, read())
	if err != nil || len(ap.Permissions) != 1 || ap.Permissions[0] != "network:egress:api.example.com" {
		t.Fatalf("approval %+v, %v", ap, err)
	}
	var drift *DriftError
	if _, err := a.Check(dir+"2", read()); !errors.As(err, &drift) || drift.What != "folder" {
		t.Errorf("another folder: %v", err)
	}
	install(t, dir, func(f map[string]any) { f["description"] = "Counts words, and more." })
	if _, err := a.Check(dir, read()); !errors.As(err, &drift) || drift.What != "manifest" || !errors.Is(err, ErrNotApproved) {
		t.Errorf("a changed manifest: %v", err)
	}
	if _, err := a.Approve(dir, read(), nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	if ap, err := a.Check(dir, read()); err != nil || len(ap.Permissions) != 0 {
		t.Errorf("approved anew without permissions: %+v, %v", ap, err)
	}
	for range 2 {
		if err := a.Revoke("com.example.words"); err != nil {
			t.Error(err)
		}
	}
	if _, err := a.Check(dir, read()); !errors.Is(err, ErrNotApproved) {
		t.Errorf("revoked: %v", err)
	}
}

func TestApprovalsAreGuarded(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenApprovals(dir); err == nil || !strings.Contains(err.Error(), "nobody else") {
		t.Errorf("a folder that all can write: %v", err)
	}
	a, err := OpenApprovals(filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"../x", "", "a/b"} {
		if _, err := a.Get(id); err == nil {
			t.Errorf("read the approval of %q", id)
		}
		if err := a.Revoke(id); err == nil {
			t.Errorf("revoked %q", id)
		}
	}
	if err := os.WriteFile(a.path("x"), []byte(`{"agent_id":"y"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Get("x"); !errors.Is(err, ErrNotApproved) {
		t.Errorf("a file of another agent: %v", err)
	}
}
