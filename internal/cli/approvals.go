package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lightwork-market/lightwork/buyer"
	"github.com/lightwork-market/lightwork/payments"
	"github.com/lightwork-market/lightwork/receipts"
	"github.com/lightwork-market/lightwork/schemas"
)

// approvalConfig is one rule; the first that fits a payment decides about it.
type approvalConfig struct {
	ID        string               `yaml:"id"`
	UpToMsats int64                `yaml:"up_to_msats"`
	Schemas   []string             `yaml:"schemas"`
	Providers []string             `yaml:"providers"`
	Modes     []receipts.Mode      `yaml:"modes"`
	Do        buyer.ApprovalAction `yaml:"do"`
}

func (c *config) checkApprovals() *configError {
	ids := map[string]bool{}
	for i, a := range c.Buyer.Approvals {
		at := fmt.Sprintf("$.buyer.approvals[%d]", i)
		switch {
		case a.ID == "" || len(a.ID) > 64:
			return &configError{at, "id is needed, of at most 64 bytes: it goes into the receipt"}
		case ids[a.ID]:
			return &configError{at + ".id", "is the id of another rule too"}
		case a.UpToMsats < 0 || payments.CheckMsats(a.UpToMsats) != nil:
			return &configError{at + ".up_to_msats", "must be an amount in msats; 0 is no limit"}
		case !slices.Contains([]buyer.ApprovalAction{"", buyer.Approve, buyer.Ask, buyer.Refuse}, a.Do):
			return &configError{at + ".do", "must be approve, ask or refuse"}
		}
		ids[a.ID] = true
		for j, s := range a.Schemas {
			if _, ok := schemas.Lookup(s); !ok {
				return &configError{fmt.Sprintf("%s.schemas[%d]", at, j), "unknown job type; lightwork schemas list shows them"}
			}
		}
		for j, p := range a.Providers {
			if _, err := receipts.ParseKey(p); err != nil {
				return &configError{fmt.Sprintf("%s.providers[%d]", at, j), "must be an npub1... or 64 hex digits"}
			}
		}
		if bad := checkModes(at+".modes", a.Modes); bad != nil {
			return bad
		}
	}
	return nil
}

// rules are the configured approvals; none where the order's maximum decides.
func (c *config) rules() []buyer.ApprovalRule {
	var rules []buyer.ApprovalRule
	for _, a := range c.Buyer.Approvals {
		r := buyer.ApprovalRule{ID: a.ID, UpToMsats: a.UpToMsats, Modes: a.Modes, Do: a.Do}
		if r.Do == "" {
			r.Do = buyer.Approve
		}
		for _, s := range a.Schemas {
			schema, _ := schemas.Lookup(s) // checked before
			r.Schemas = append(r.Schemas, string(schema.ID))
		}
		for _, p := range a.Providers {
			key, _ := receipts.ParseKey(p) // checked before
			r.Providers = append(r.Providers, key)
		}
		rules = append(rules, r)
	}
	return rules
}

// asker lets the person at the terminal decide about payments; nil where there
// is no terminal to ask on.
func asker(s *streams) func(context.Context, buyer.Approval) (bool, error) {
	in, ok := s.in.(*os.File)
	if !ok || !isTerminal(in) {
		return nil
	}
	return func(ctx context.Context, a buyer.Approval) (bool, error) {
		npub, err := receipts.Npub(a.Provider)
		if err != nil {
			return false, err
		}
		fmt.Fprintf(s.err, "\nRule %s asks: pay %s, and at most %s of routing fees, to\n%s\nfor %s in mode %s? [y/N] ",
			printable(a.RuleID), msats(a.PriceMsats), msats(a.FeeLimitMsats), npub, printable(a.SchemaID), a.Mode)
		answer, err := readLine(ctx, in)
		return answer == "y" || answer == "yes", err
	}
}

func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	return err == nil
}

// readLine reads one short line, lower-case; the end of the input is no line. It
// polls, because a read of a terminal cannot be interrupted.
func readLine(ctx context.Context, in *os.File) (string, error) {
	const most, pollMs = 64, 100
	var line strings.Builder
	for one := make([]byte, 1); line.Len() < most; {
		fds := []unix.PollFd{{Fd: int32(in.Fd()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, pollMs)
		switch {
		case ctx.Err() != nil:
			return "", ctx.Err()
		case err != nil && !errors.Is(err, unix.EINTR):
			return "", err
		case n < 1:
			continue
		}
		if _, err := in.Read(one); errors.Is(err, io.EOF) {
			return "", nil
		} else if err != nil {
			return "", err
		}
		if one[0] == '\n' {
			break
		}
		line.WriteByte(one[0])
	}
	return strings.ToLower(strings.TrimSpace(line.String())), nil
}

// refusedByRule is a refusal of the approval rules with the next step.
func refusedByRule(rule buyer.ApprovalRule, err error) error {
	hint := "buyer.approvals in the configuration says what may be paid"
	if rule.Do == buyer.Ask {
		hint = "run it on a terminal, or let a rule of buyer.approvals approve it"
	}
	return hinted(err, hint)
}
