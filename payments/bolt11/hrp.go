package bolt11

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/lightwork-market/lightwork/payments"
)

// prefixes pairs each network with the letters after "ln". Play money has
// letters of its own, so that no Lightning wallet takes such an invoice for a
// real one.
var prefixes = [...]struct {
	letters string
	network payments.Network
}{
	{"bc", payments.Mainnet},
	{"tb", payments.Testnet},
	{"tbs", payments.Signet},
	{"bcrt", payments.Regtest},
	{"sb", payments.Simnet},
	{"play", payments.Play},
	{cashuLetters, cashuLetters}, // until the terms have said which mint
}

// multipliers in msats, largest first. Pico is apart: it is a tenth of a msat.
var multipliers = [...]struct {
	letter string
	msats  int64
}{
	{"", 100_000_000_000},
	{"m", 100_000_000},
	{"u", 100_000},
	{"n", 100},
}

// parseHRP reads the human-readable part: "ln", the network's letters, and an
// amount, which starts at the first digit because no prefix has one.
func parseHRP(hrp string) (payments.Network, int64, error) {
	rest, ok := strings.CutPrefix(hrp, "ln")
	if !ok {
		return "", 0, fmt.Errorf("%w: no ln", ErrPrefix)
	}
	letters, amount := rest, ""
	if i := strings.IndexAny(rest, "0123456789"); i >= 0 {
		letters, amount = rest[:i], rest[i:]
	}

	for _, p := range prefixes {
		if p.letters == letters {
			msats, err := parseAmount(amount)
			return p.network, msats, err
		}
	}

	return "", 0, fmt.Errorf("%w: %q", ErrPrefix, letters)
}

// parseAmount reads digits and an optional multiplier; "" gives 0.
func parseAmount(s string) (int64, error) {
	if s == "" {
		return 0, nil
	}
	digits, unit := s, ""
	if last := s[len(s)-1]; last < '0' || last > '9' {
		digits, unit = s[:len(s)-1], s[len(s)-1:]
	}
	if strings.Trim(digits, "0123456789") != "" || digits[0] == '0' {
		return 0, fmt.Errorf("%w: %q is not a positive number without leading zeros", ErrAmount, digits)
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w: out of range", ErrAmount)
	}
	if unit == "p" {
		if n%10 != 0 {
			return 0, fmt.Errorf("%w: a fraction of a msat", ErrAmount)
		}
		return boundAmount(n/10, 1)
	}

	for _, m := range multipliers {
		if m.letter == unit {
			return boundAmount(n, m.msats)
		}
	}

	return 0, fmt.Errorf("%w: unknown multiplier %q", ErrAmount, unit)
}

// boundAmount multiplies, refusing more than payments.MaxMsats (about 90 000
// BTC), which is less than all there are.
func boundAmount(n, unit int64) (int64, error) {
	if n > payments.MaxMsats/unit {
		return 0, fmt.Errorf("%w: out of range", ErrAmount)
	}
	return n * unit, nil
}

// formatHRP is the inverse of parseHRP, with the shortest amount.
func formatHRP(network payments.Network, msats int64) (string, error) {
	if msats < 0 || msats > payments.MaxMsats {
		return "", fmt.Errorf("%w: %d msats", ErrAmount, msats)
	}
	for _, p := range prefixes {
		if p.network == network {
			return "ln" + p.letters + formatAmount(msats), nil
		}
	}
	return "", fmt.Errorf("%w: network %q", ErrPrefix, network)
}

func formatAmount(msats int64) string {
	if msats == 0 {
		return ""
	}
	for _, m := range multipliers {
		if msats%m.msats == 0 {
			return strconv.FormatInt(msats/m.msats, 10) + m.letter
		}
	}
	return strconv.FormatInt(msats, 10) + "0p"
}
