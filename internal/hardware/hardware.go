// Package hardware detects the hardware of this machine. The numbers that a
// provider announces are detected, never configured (OA-7.2).
package hardware

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"io/fs"
	"os/exec"
	"path"
	"strconv"
	"strings"
	"time"
)

// Hardware is the detected hardware. Without a visible GPU, GPU is "none" and
// VRAMGB is 0.
type Hardware struct {
	MemoryGB int // available to this process, GiB, rounded
	GPU      string
	VRAMGB   int // of that GPU, GiB, rounded; 0 if unknown
}

const (
	// noLimit is a bound for real limits: cgroup v1 writes a number near 2^63 for
	// none.
	noLimit   = 1 << 50
	askNvidia = 5 * time.Second
	vendorAMD = "0x1002"
)

// Detect examines the machine with the given root folder. Missing hardware is not
// an error; it is just not announced.
func Detect(ctx context.Context, root fs.FS) Hardware {
	h := Hardware{MemoryGB: gib(memory(root)), GPU: "none"}
	if _, err := fs.Stat(root, "proc/driver/nvidia/version"); err == nil {
		if name, vram := nvidia(askDriver(ctx)); name != "" {
			h.GPU, h.VRAMGB = name, gib(vram)
			return h
		}
	}
	if vram, ok := amd(root); ok {
		h.GPU, h.VRAMGB = "AMD", gib(vram)
	}
	return h
}

func gib(bytes int64) int { return int((bytes + 1<<29) >> 30) }

// memory returns the machine's memory or a lower cgroup limit, in bytes.
func memory(root fs.FS) int64 {
	total := memTotal(root)
	for _, limit := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if n, ok := number(root, limit); ok && n < noLimit && (n < total || total == 0) {
			total = n
		}
	}
	return total
}

func memTotal(root fs.FS) int64 {
	f, err := root.Open("proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()

	for sc := bufio.NewScanner(f); sc.Scan(); {
		if rest, ok := strings.CutPrefix(sc.Text(), "MemTotal:"); ok {
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return kb << 10
			}
		}
	}

	return 0
}

func number(root fs.FS, name string) (int64, bool) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil && n > 0
}

// amd returns the largest memory of AMD's cards.
func amd(root fs.FS) (vram int64, found bool) {
	cards, _ := fs.Glob(root, "sys/class/drm/card*/device/vendor")
	for _, card := range cards {
		vendor, err := fs.ReadFile(root, card)
		if err != nil || strings.TrimSpace(string(vendor)) != vendorAMD {
			continue
		}
		n, _ := number(root, path.Join(path.Dir(card), "mem_info_vram_total"))
		vram, found = max(vram, n), true
	}
	return vram, found
}

// askDriver lists the cards with Nvidia's own program, because the kernel does not
// report their memory.
func askDriver(ctx context.Context) []byte {
	ctx, stop := context.WithTimeout(ctx, askNvidia)
	defer stop()
	out, err := exec.CommandContext(ctx, "nvidia-smi", "--query-gpu=name,memory.total", "--format=csv,noheader,nounits").Output()
	if err != nil {
		return nil
	}
	return out
}

// nvidia returns the card with the most memory from lines of "name, MiB".
func nvidia(list []byte) (name string, vram int64) {
	rows := csv.NewReader(bytes.NewReader(list))
	rows.FieldsPerRecord, rows.TrimLeadingSpace = 2, true
	cards, err := rows.ReadAll()
	if err != nil {
		return "", 0
	}

	for _, card := range cards {
		mib, err := strconv.ParseInt(card[1], 10, 32)
		if err == nil && mib<<20 > vram {
			name, vram = card[0], mib<<20
		}
	}

	return name, vram
}
