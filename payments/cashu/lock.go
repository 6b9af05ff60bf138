package cashu

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/btcsuite/btcd/btcec/v2"
	"github.com/btcsuite/btcd/btcec/v2/schnorr"

	"github.com/lightwork-market/lightwork/hashing"
	"github.com/lightwork-market/lightwork/payments"
)

// lock is the spending condition in a note's secret (NUT-10, NUT-14): until a time
// the payee with the preimage, after it the payer.
type lock struct {
	hash   payments.Hash
	payee  string // compressed keys in hex
	refund string
	until  int64 // unix seconds
}

// condition is the second part of a secret as in NUT-10: ["HTLC", {...}].
type condition struct {
	Nonce string     `json:"nonce"`
	Data  string     `json:"data"`
	Tags  [][]string `json:"tags"`
}

const kindHTLC = "HTLC"

// noteSecret returns the secret of one note under the lock. n_sigs has its default, but
// some mints require no signature without it.
func (l lock) noteSecret(nonce string) (string, error) {
	doc, err := json.Marshal([]any{kindHTLC, condition{
		Nonce: nonce,
		Data:  l.hash.String(),
		Tags: [][]string{
			{"pubkeys", l.payee},
			{"n_sigs", "1"},
			{"locktime", strconv.FormatInt(l.until, 10)},
			{"refund", l.refund},
		},
	}})
	return string(doc), err
}

// parseLock parses a secret. Unknown tags are refused, because they could let
// others spend the note.
func parseLock(secret string) (l lock, err error) {
	var parts []json.RawMessage
	var kind string
	var c condition
	if err := hashing.Unmarshal([]byte(secret), &parts); err != nil || len(parts) != 2 {
		return l, fmt.Errorf("%w: not a secret of NUT-10", ErrLock)
	}
	if err := firstError(hashing.Unmarshal(parts[0], &kind), hashing.Unmarshal(parts[1], &c)); err != nil || kind != kindHTLC {
		return l, fmt.Errorf("%w: of kind %q", ErrLock, printable(kind))
	}
	if l.hash, err = payments.ParseHash(c.Data); err != nil {
		return l, fmt.Errorf("%w: %w", ErrLock, err)
	}

	seen := map[string]bool{}
	for _, tag := range c.Tags {
		if len(tag) != 2 || seen[tag[0]] {
			return l, fmt.Errorf("%w: a tag with %d values, or twice", ErrLock, len(tag)-1)
		}
		seen[tag[0]] = true
		if !l.read(tag[0], tag[1]) {
			return l, fmt.Errorf("%w: %q is %q", ErrLock, printable(tag[0]), printable(tag[1]))
		}
	}

	for _, name := range []string{"pubkeys", "locktime", "refund"} {
		if !seen[name] {
			return l, fmt.Errorf("%w: %s is missing", ErrLock, name)
		}
	}

	return l, nil
}

// read handles one tag; it returns false if the tag is not allowed.
func (l *lock) read(name, value string) bool {
	switch name {
	case "pubkeys", "refund":
		if _, err := parsePoint(value); err != nil {
			return false
		}
		if name == "pubkeys" {
			l.payee = value
		} else {
			l.refund = value
		}
		return true
	case "locktime":
		until, err := strconv.ParseInt(value, 10, 64)
		l.until = until
		return err == nil && until > 0
	case "n_sigs", "n_sigs_refund":
		return value == "1"
	case "sigflag":
		return value == "SIG_INPUTS"
	}

	return false
}

// witness is the proof that spends a locked note (NUT-14).
type witness struct {
	Preimage   string   `json:"preimage"`
	Signatures []string `json:"signatures"`
}

// sign adds the witnesses: the key's signature on each secret, and the preimage
// (zero if the payer takes the notes back).
func sign(notes []note, key *btcec.PrivateKey, preimage payments.Preimage) ([]note, error) {
	out := make([]note, len(notes))
	for i, n := range notes {
		digest := sha256.Sum256([]byte(n.Secret))
		sig, err := schnorr.Sign(key, digest[:])
		if err != nil {
			return nil, fmt.Errorf("sign note: %w", err)
		}
		doc, err := json.Marshal(witness{Preimage: preimage.String(), Signatures: []string{hex.EncodeToString(sig.Serialize())}})
		if err != nil {
			return nil, fmt.Errorf("sign note: %w", err)
		}
		n.Witness = string(doc)
		out[i] = n
	}

	return out, nil
}

// preimageIn finds the preimage in the witness of a spent note. The payee wrote the
// witness, and mints accept more spellings than ours, so a payee could try to hide
// the preimage from the payer and thereby withhold the key of a sealed result.
// Therefore every string in it that matches the hash counts, wherever and however
// it is written.
func preimageIn(doc string, hash payments.Hash) (payments.Preimage, bool) {
	doc = plain(doc)
	digits := 0
	for i := range len(doc) {
		if digits++; !strings.Contains("0123456789abcdef", doc[i:i+1]) {
			digits = 0
		}
		if digits < 2*len(hash) {
			continue
		}
		p, err := payments.ParsePreimage(doc[i+1-2*len(hash) : i+1])
		if err == nil && !p.IsZero() && p.Hash() == hash {
			return p, true
		}
	}

	return payments.Preimage{}, false
}

// plain removes variations that JSON and hex decoders allow: escapes, blanks,
// capitals.
func plain(doc string) string {
	doc = regexp.MustCompile(`\\u00[0-9a-fA-F]{2}`).ReplaceAllStringFunc(doc, func(s string) string {
		c, _ := hex.DecodeString(s[len(`\u00`):]) // two hex digits
		return string(c)
	})
	doc = strings.NewReplacer(`\n`, "", `\r`, "", `\t`, "", `\f`, "").Replace(doc)
	return strings.ToLower(strings.Join(strings.Fields(doc), ""))
}
