// Package nip05 asks domains to confirm names that keys give themselves (NIP-05,
// "name@host").
//
// Names, hosts and answers are untrusted. So only https is used, redirects are not
// followed, answers are bounded in size and time, and at most 50 names are
// checked at once. [Config.Client] restricts the reachable hosts: it must refuse
// addresses that are not public.
//
// A request tells the host who asks and about which name. So names are checked only
// where a person wants to see them, and no order depends on one.
package nip05

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/internal/clip"
	"github.com/lightwork-market/lightwork/payments"
)

var (
	// ErrName: the text is not such a name.
	ErrName = errors.New("not a name of NIP-05 (name@host)")
	// ErrUnanswered: the host did not give a usable answer.
	ErrUnanswered = errors.New("the host of the name")
	// ErrOtherKey: the host names another key, or none.
	ErrOtherKey = errors.New("the host vouches for no such key")
)

const (
	// maxNames bounds the names of a list that are checked.
	maxNames = 50

	maxAnswer = 64 << 10 // bytes
	atOnce    = 8
	patience  = 5 * time.Second // for one name, and for a whole list
)

// Claim is a name that a key gives itself.
type Claim struct {
	Name string // name@host
	Key  string // x-only, in lower-case hex
}

// Config configures a [Verifier].
type Config struct {
	// Client makes the requests. It must reach public addresses only; its redirects
	// are disabled here.
	Client *http.Client
	// CacheFile stores answers between runs; "" stores none.
	CacheFile string
}

// Verifier asks hosts to confirm names.
type Verifier struct{ cfg Config }

// New returns a verifier.
func New(cfg Config) *Verifier { return &Verifier{cfg} }

// Split parses a name.
func Split(name string) (local, host string, err error) {
	local, host, err = payments.ParseAddress(name) // the same form, except for a tag
	if err != nil || strings.Contains(local, "+") {
		return "", "", fmt.Errorf("%w: %q", ErrName, clip.Line(name, 100))
	}
	return local, host, nil
}

// Display returns a name as shown to people: for the name of a whole host, just the
// host.
func Display(name string) string { return strings.TrimPrefix(name, "_@") }

// Verified returns the claims that their hosts confirm. It takes at most 5 s: a
// host that has not answered by then does not count.
func (v *Verifier) Verified(ctx context.Context, claims []Claim) map[Claim]bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	answers := readCache(v.cfg.CacheFile)
	verified, seen := map[Claim]bool{}, map[Claim]bool{}
	var open []Claim
	for _, c := range claims {
		if _, _, err := Split(c.Name); err != nil || seen[c] || len(seen) == maxNames {
			continue
		}
		seen[c] = true
		if a, ok := answers.fresh(c); !ok {
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

			answers.add(c, err == nil)
			if err == nil {
				verified[c] = true
			}
		})
	}

	all.Wait()

	answers.write(v.cfg.CacheFile)
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
	case hashing.UnmarshalKnown(doc, &answer) != nil:
		return fmt.Errorf("%w does not answer in JSON of NIP-05", ErrUnanswered)
	case answer.Names[local] != c.Key:
		return fmt.Errorf("%w: %s does not say that %q is %s", ErrOtherKey, u.String(), local, c.Key)
	}

	return nil
}
