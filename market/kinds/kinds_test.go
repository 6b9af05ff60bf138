package kinds_test

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/domain"
	"github.com/lightwork-market/lightwork/market/kinds"
)

// TestTableIsTheProtocols: docs/protocol/protocol.md says of the same kinds that the same
// side signs them. Logins are no documents, and it has them elsewhere.
func TestTableIsTheProtocols(t *testing.T) {
	text, err := os.ReadFile("../../docs/protocol/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Kinds\n")
	section, _, _ = strings.Cut(section, "\n#")

	type signers struct{ buyer, provider bool }
	said := map[int]signers{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([0-9, ]+) \| ([a-z ]+) \|`).FindAllStringSubmatch(section, -1) {
		for kind := range strings.SplitSeq(row[1], ",") {
			n, err := strconv.Atoi(strings.TrimSpace(kind))
			if err != nil {
				t.Fatal(err)
			}
			said[n] = signers{
				said[n].buyer || strings.Contains(row[2], "buyer") || row[2] == "anybody",
				said[n].provider || strings.Contains(row[2], "provider"),
			}
		}
	}

	for _, e := range kinds.Table() {
		if e.Kind == kinds.RelayLogin || e.Kind == kinds.BlobLogin {
			continue
		}
		if got := (signers{e.Buyer, e.Provider}); got != said[e.Kind] {
			t.Errorf("kind %d is signed by %+v; docs/protocol/protocol.md says %+v", e.Kind, got, said[e.Kind])
		}
		delete(said, e.Kind)
	}
	for kind := range said {
		t.Errorf("docs/protocol/protocol.md has kind %d, and the table has not", kind)
	}
}

// TestEveryDomainHasAKind: but for those of events whose kind somebody else or the
// configuration chooses.
func TestEveryDomainHasAKind(t *testing.T) {
	elsewhere := []domain.Domain{
		domain.Wallet, // NIP-47, signed with a key of the connection
		domain.AgentProfile, domain.AgentState, domain.TickRequest, domain.TickResult, domain.TrajectorySession, domain.TrajectoryEvent,
	}
	var found []domain.Domain
	for i, e := range kinds.Table() {
		found = append(found, e.Domains...)
		if i > 0 && kinds.Table()[i-1].Kind == e.Kind {
			t.Errorf("kind %d is there twice", e.Kind)
		}
	}
	for _, d := range domain.All() {
		if slices.Contains(found, d) == slices.Contains(elsewhere, d) {
			t.Errorf("domain %s must be of a kind of the table, or of one that is chosen elsewhere", d)
		}
	}
}

// TestSigners: a key is asked for exactly the kinds that its side signs, each once, and
// whoever changes a list changes no other's.
func TestSigners(t *testing.T) {
	for side, c := range map[string]struct {
		list  func() []int
		signs func(kinds.Event) bool
	}{
		"buyer":    {kinds.SignedByBuyer, func(e kinds.Event) bool { return e.Buyer }},
		"provider": {kinds.SignedByProvider, func(e kinds.Event) bool { return e.Provider }},
	} {
		list := c.list()
		for _, e := range kinds.Table() {
			n := 0
			for _, kind := range list {
				if kind == e.Kind {
					n++
				}
			}
			if want := map[bool]int{true: 1}[c.signs(e)]; n != want {
				t.Errorf("kind %d is %d times in the list of the %s, want %d", e.Kind, n, side, want)
			}
		}
		list[0] = -1
		kinds.Table()[0].Kind = -1
		if slices.Contains(c.list(), -1) {
			t.Errorf("the list of the %s is not its caller's own", side)
		}
	}

	if slices.Contains(kinds.SignedByBuyer(), kinds.Receipt) || slices.Contains(kinds.SignedByProvider(), kinds.Acceptance) {
		t.Error("a side signs what the other has to")
	}
}
