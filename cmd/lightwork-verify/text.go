package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/lightwork-market/lightwork/receipts"
)

// verdicts describe the exit codes. None is just "valid".
var verdicts = map[int]string{
	receipts.ExitProved:      "every required claim is proved",
	receipts.ExitFailed:      "a claim failed: do not rely on this bundle",
	receipts.ExitUnusable:    "the bundle is unusable",
	receipts.ExitNotProvable: "a required claim is not provable with this bundle",
}

func printText(w io.Writer, r receipts.Report, explain bool) error {
	var b strings.Builder
	if r.ReceiptID != "" {
		fmt.Fprintf(&b, "receipt   %s\nprovider  %s\nbuyer     %s\namount    %d msats %s, mode %s, for the %s\n\n",
			r.ReceiptID, r.ProviderID, r.BuyerID, r.AmountMsats, r.AssetID, r.Mode, r.Purpose)
	}

	for _, c := range r.Claims {
		optional := ""
		if !c.Required {
			optional = " (not required)"
		}
		fmt.Fprintf(&b, "%-12s  %s%s\n              %s\n", c.State, c.Name, optional, c.Reason)
		if explain {
			printSteps(&b, c.Steps)
		}
	}

	if len(r.SelfAsserted) > 0 {
		fmt.Fprintf(&b, "\nself-asserted: %s\n", strings.Join(r.SelfAsserted, ", "))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	code := r.ExitCode()
	fmt.Fprintf(&b, "\n%s", verdicts[code])
	if r.Unusable != "" {
		fmt.Fprintf(&b, ": %s", r.Unusable)
	}
	fmt.Fprintf(&b, " (exit %d)\n", code)
	_, err := io.WriteString(w, printable(b.String()))
	return err
}

func printSteps(b *strings.Builder, steps []receipts.Step) {
	for _, s := range steps {
		fmt.Fprintf(b, "                %-5s %-12s  %s", s.Number, s.State, s.Check)
		if s.Detail != "" {
			fmt.Fprintf(b, ": %s", s.Detail)
		}
		b.WriteByte('\n')
	}
}

// printable removes characters that could control a terminal or reorder its text.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && steers(r) || r == unicode.ReplacementChar {
			return '?'
		}
		return r
	}, s)
}

func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Cf, r) }

// writeJSON writes v on one line, or indented. It escapes characters that control a
// terminal, which JSON allows in strings.
func writeJSON(w io.Writer, v any, indent string) error {
	var doc bytes.Buffer
	out := json.NewEncoder(&doc)
	out.SetIndent("", indent)
	if err := out.Encode(v); err != nil {
		return err
	}

	var b strings.Builder
	for _, r := range doc.String() {
		if r != '\n' && r <= 0xffff && steers(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}

	_, err := io.WriteString(w, b.String())
	return err
}
