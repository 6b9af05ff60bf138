package nip05

import (
	"encoding/json"
	"io"
	"os"
	"time"
)

const (
	keepVouched = 24 * time.Hour
	keepOthers  = time.Hour // a host that did not confirm may do so soon
	maxKept     = 1000
	maxFile     = 1 << 20 // bytes
)

// answer is a host's answer about a claim.
type answer struct {
	Vouched bool      `json:"vouched"`
	At      time.Time `json:"at"`
}

func (a answer) isFresh() bool {
	age, keep := time.Since(a.At), keepOthers
	if a.Vouched {
		keep = keepVouched
	}
	return age >= 0 && age < keep
}

// cache holds answers by key and name.
type cache map[string]answer

// readCache returns an empty cache if the file is not usable.
func readCache(file string) cache {
	answers := cache{}
	f, err := os.Open(file)
	if err != nil {
		return answers
	}
	defer f.Close()
	doc, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil || json.Unmarshal(doc, &answers) != nil || answers == nil {
		return cache{}
	}
	return answers
}

func (k cache) fresh(c Claim) (answer, bool) {
	a, ok := k[c.Key+" "+c.Name]
	return a, ok && a.isFresh()
}

func (k cache) add(c Claim, vouched bool) {
	k[c.Key+" "+c.Name] = answer{vouched, time.Now().UTC()}
}

// write stores the answers that are still fresh. Errors are ignored: without a
// cache the hosts are asked again.
func (k cache) write(file string) {
	if file == "" {
		return
	}

	fresh := cache{}
	for name, a := range k {
		if a.isFresh() && len(fresh) < maxKept {
			fresh[name] = a
		}
	}

	doc, err := json.Marshal(fresh)
	if err != nil {
		return
	}
	part := file + ".partial"
	if os.WriteFile(part, doc, 0o600) == nil {
		_ = os.Rename(part, file)
	}
}
