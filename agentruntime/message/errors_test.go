package message

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/agentruntime/pipeline"
	"github.com/lightwork-market/lightwork/agentruntime/wire"
	"github.com/lightwork-market/lightwork/internal/requirements"
)

// TestTableIsTheSpecifications compares the table with the one that is printed
// in docs/develop/requirements.md, row by row and cell by cell.
func TestTableIsTheSpecifications(t *testing.T) {
	requirements.Covers(t, "K-46", "M-5")
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "develop", "requirements.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(doc), "- M-5 Error table:")
	if !found {
		t.Fatal("there is no table")
	}
	words := func(cell string) []string { return regexp.MustCompile(`[A-Za-z_.0-9]+`).FindAllString(cell, -1) }
	rows := 0
	for line := range strings.Lines(rest[strings.Index(rest, "| bad message"):]) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 6 {
			break
		}
		got := table()[rows]
		rows++
		for _, code := range words(cells[1]) {
			if FromOS(code, "").Kind != got.Kind {
				t.Errorf("%s is %s, want %s", code, FromOS(code, "").Kind, got.Kind)
			}
		}
		if first := words(cells[1])[0]; got.OS[0] != first {
			t.Errorf("row %s is written as %s, want %s", got.Kind, got.OS[0], first)
		}
		if code := strings.TrimSpace(cells[2]); string(got.Code) != code {
			t.Errorf("row %s has code %s, want %s", got.Kind, got.Code, code)
		}
		gateway := words(strings.Join([]string{got.Class, got.Status}, " "))
		wanted := words(cells[3])
		slices.Sort(gateway)
		slices.Sort(wanted)
		if !slices.Equal(gateway, wanted) {
			t.Errorf("row %s has gateway words %v, want %v", got.Kind, gateway, wanted)
		}
		if market := strings.TrimSpace(cells[4]); string(got.Market) != market {
			t.Errorf("row %s has market %s, want %s", got.Kind, got.Market, market)
		}
		if retry := strings.TrimSpace(cells[5]) == "yes"; got.Retryable != retry {
			t.Errorf("row %s is retryable %v, want %v", got.Kind, got.Retryable, retry)
		}
	}
	if rows != 10 || len(table()) != 11 {
		t.Errorf("compared %d rows of %d", rows, len(table()))
	}
}

func TestRetryableIsRecoverable(t *testing.T) {
	requirements.Covers(t, "K-46")
	seen := map[string]Kind{}
	for _, row := range table() {
		// A canceled call is a TIMEOUT to YE-E and not to be repeated by M-5.
		if row.Kind != KindCanceled && row.Retryable != row.Code.Recoverable() {
			t.Errorf("%s: retryable %v, recoverable %v", row.Kind, row.Retryable, row.Code.Recoverable())
		}
		for _, code := range row.OS {
			if seen[code] != "" {
				t.Errorf("%s is in rows %s and %s", code, seen[code], row.Kind)
			}
			seen[code] = row.Kind
		}
		e := &Error{Kind: row.Kind, Field: "id", Reason: "r"}
		f := e.Failure()
		if f.Code != row.OS[0] || f.Retryable != row.Retryable || f.Message != "id: r" || e.Code() != row.Code {
			t.Errorf("%s renders as %+v and %s", row.Kind, f, e.Code())
		}
	}
	for _, code := range []string{
		wire.CodeUnauthorized, wire.CodeInvalidMessage, wire.CodeUnknownType, wire.CodeWrongDirection, wire.CodeUnsupportedVersion,
		wire.CodeManifestDrift, wire.CodeInvalidTool, wire.CodeDuplicateCall, wire.CodeRouteNotFound, wire.CodeInvalidInput,
		wire.CodeInvalidOutput, wire.CodeOutputTooLarge, wire.CodeFailed, wire.CodeInternal, wire.CodeTimeout, wire.CodeCanceled,
		wire.CodeUnavailable, wire.CodeOverloaded, wire.CodePolicyViolation,
	} {
		if seen[code] == "" {
			t.Errorf("%s is in no row", code)
		}
	}
}

func TestEveryErrorHasAKind(t *testing.T) {
	const secret = "hunter2"
	for _, c := range []struct {
		err  error
		want Kind
	}{
		{invalid("id", "is missing"), KindInvalid},
		{&pipeline.ValidationError{Tag: "ye.response", Err: fabricated(LawFabrication, "f", "r")}, KindFabrication},
		{&pipeline.ValidationError{Tag: "x", Err: errors.New(secret)}, KindInvalid},
		{&pipeline.MalformedError{Field: "sender", Reason: secret}, KindInvalid},
		{&pipeline.ResponseError{Handler: "h", Tag: "x", Err: errors.New(secret)}, KindInvalid},
		{fmt.Errorf("ye.query: %w", pipeline.ErrRouteNotFound), KindUnauthorized},
		{pipeline.ErrNoDirective, KindUnauthorized},
		{pipeline.ErrThreadBusy, KindOverload},
		{pipeline.ErrChainExhausted, KindOverload},
		{&pipeline.HandlerError{Failure: pipeline.Failure{Code: "tool.unavailable"}}, KindUnavailable},
		{&pipeline.HandlerError{Err: context.DeadlineExceeded, Failure: pipeline.Failure{Code: "handler.failed"}}, KindDeadline},
		{&wire.Error{Code: OSDataUnavailable}, KindNoData},
		{&wire.Error{Code: "agent.own.code", Message: "password=" + secret}, KindFailed},
		{&wire.Error{Code: wire.CodeTimeout, Message: "password=" + secret}, KindDeadline},
		{fmt.Errorf("call: %w", context.Canceled), KindCanceled},
		{errors.New(secret), KindFailed},
		{&pipeline.HandlerPanicError{Handler: "h", Value: secret}, KindFailed},
	} {
		got := FromError(c.err)
		if got.Kind != c.want {
			t.Errorf("%v is %s, want %s", c.err, got.Kind, c.want)
		}
		if strings.Contains(got.Error(), secret) || strings.Contains(got.Failure().Message, secret) {
			t.Errorf("%v repeats what it does not know", got)
		}
	}
	if FromError(nil) != nil {
		t.Error("nil is an error")
	}
}

func TestAnyErrorMakesAMessage(t *testing.T) {
	m := parse(t, example(t, "query"))
	for _, e := range []*Error{
		invalid("payload.content.contradictions.0", "is bad"),
		{Kind: "no such kind", Field: "\"\xff\n", Reason: strings.Repeat("long \x00", 10_000)},
	} {
		answer := m.Fail(e, noon)
		if _, err := Encode(answer); err != nil {
			t.Errorf("%q: %v", e.Field, err)
		}
	}
	f, err := ContentOf[Failure](m.Fail(invalid("ttl", "is bad"), noon))
	if err != nil || string(f.Details) != `{"field":"ttl"}` || f.Message != "is bad" {
		t.Errorf("%+v, %v", f, err)
	}
}
