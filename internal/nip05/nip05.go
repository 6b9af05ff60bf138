// Package nip05 asks domains whether they vouch for a name that a key gives itself
// (NIP-05, "name@host").
//
// Names, hosts and answers are a stranger's. So nothing but https is asked, no redirect
// is followed, answers are bounded in size and time, and no more than [MaxNames] names
// are looked at at once. Which hosts may be reached at all is the business of
// [Config.Client]: it must refuse addresses that are not public.
//
// A host that is asked learns who asks and whose name is looked at. So names are asked
// for only where a person wants to see them, and no order depends on one.
package nip05

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/payments"
)

var (
	// ErrName: the text is no such name.
	ErrName = errors.New("not a name of NIP-05 (name@host)")
	// ErrUnanswered: the host cannot be asked, or answers with nothing usable.
	ErrUnanswered = errors.New("the host of the name")
	// ErrOtherKey: the host answers, and names no key or another one.
	ErrOtherKey = errors.New("the host vouches for no such key")
)

const (
	// MaxNames is how many names of a list are looked at; the rest is left unasked.
	MaxNames = 50

	maxAnswer = 64 << 10 // bytes
	atOnce    = 8
	patience  = 5 * time.Second // for one name, and for a whole list
)

// Claim is a name that a key gives itself.
type Claim struct {
	Name string // name@host
	Key  string // x-only, in lower-case hex
}

// Config says how to ask.
type Config struct {
	// Client makes the requests. It follows no redirects and reaches public addresses
	// only.
	Client *http.Client
	// CacheFile keeps answers from one run to the next; "" keeps none.
	CacheFile string
}

// Verifier asks hosts for keys.
type Verifier struct{ cfg Config }

// New makes a verifier.
func New(cfg Config) *Verifier { return &Verifier{cfg} }

// Split reads a name. It asks nobody.
func Split(name string) (local, host string, err error) {
	local, host, err = payments.ParseAddress(name) // the same form, but for a tag
	if err != nil || strings.Contains(local, "+") {
		return "", "", fmt.Errorf("%w: %q", ErrName, payments.Printable(name, 100))
	}
	return local, host, nil
}

// Display is a name as people see it: the one that stands for a whole host is the host.
func Display(name string) string { return strings.TrimPrefix(name, "_@") }

// Verified returns those of the claims that their hosts vouch for. It takes 5 s at
// most: a host that has not answered by then vouches for nothing.
func (v *Verifier) Verified(ctx context.Context, claims []Claim) map[Claim]bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	kept := readCache(v.cfg.CacheFile)
	verified, seen := map[Claim]bool{}, map[Claim]bool{}
	var open []Claim
	for _, c := range claims {
		if _, _, err := Split(c.Name); err != nil || seen[c] || len(seen) == MaxNames {
			continue
		}
		seen[c] = true
		if a, ok := kept.fresh(c); !ok {
			open = append(open, c)
		} else if a.Vouched {
			verified[c] = true
		}
	}

	var (
		mu   sync.Mutex // of verified and kept
		all  sync.WaitGroup
		free = make(chan struct{}, atOnce)
	)

	for _, c := range open {
		all.Go(func() {
			free <- struct{}{}
			defer func() { <-free }()

			err := v.Verify(ctx, c)
			if errors.Is(err, ErrUnanswered) {
				return
			}

			mu.Lock()
			defer mu.Unlock()

			kept.add(c, err == nil)
			if err == nil {
				verified[c] = true
			}
		})
	}

	all.Wait()

	kept.write(v.cfg.CacheFile)
	return verified
}

// Verify asks the host of one name, for 5 s at most. Its errors are ErrName, ErrUnanswered and
// ErrOtherKey.
func (v *Verifier) Verify(ctx context.Context, c Claim) error {
	local, host, err := Split(c.Name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	u := url.URL{Scheme: "https", Host: host, Path: "/.well-known/nostr.json", RawQuery: url.Values{"name": {local}}.Encode()}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrName, err)
	}
	res, err := v.cfg.Client.Do(req)
	if err != nil {
		return fmt.Errorf("%w cannot be asked: %w", ErrUnanswered, err)
	}
	defer res.Body.Close()

	doc, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	var answer struct {
		Names map[string]string `json:"names"`
	}

	switch {
	case err != nil:
		return fmt.Errorf("%w breaks off: %w", ErrUnanswered, err)
	case res.StatusCode != http.StatusOK: // a redirect too: NIP-05 wants none followed
		return fmt.Errorf("%w answers %d to %s", ErrUnanswered, res.StatusCode, u.String())
	case len(doc) > maxAnswer:
		return fmt.Errorf("%w answers with more than %d bytes", ErrUnanswered, maxAnswer)
	case json.Unmarshal(doc, &answer) != nil:
		return fmt.Errorf("%w does not answer in JSON of NIP-05", ErrUnanswered)
	case answer.Names[local] != c.Key:
		return fmt.Errorf("%w: %s does not say that %q is %s", ErrOtherKey, u.String(), local, c.Key)
	}

	return nil
}
