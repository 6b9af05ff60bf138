package redact

import (
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/internal/requirements"
)

const canary = "c4n4ry-8f3a91d7e2b64055"

func TestSecretsAreMasked(t *testing.T) {
	requirements.Covers(t, "OSX-12", "OS-7.2.1")
	for _, text := range []string{
		"Authorization: Bearer " + canary,
		"authorization: basic " + canary,
		"api_key=" + canary,
		"API-KEY: " + canary,
		`{"password":"` + canary + `"}`,
		`{"a":{"client_secret": "` + canary + ` with spaces and \"quotes\""}}`,
		"password='" + canary + "'",
		"https://user:" + canary + "@example.com/path",
		"OPENAI_API_KEY=" + canary + " python3 run.py",
		"session_token: " + canary + "; next",
		"token eyJhbGciOi.J9" + canary + "." + canary,
		"key sk-" + strings.ReplaceAll(canary, "-", ""),
		"ghp_" + strings.Repeat("a", 20) + strings.ReplaceAll(canary, "-", ""),
		"-----BEGIN EC PRIVATE KEY-----\n" + canary + "\n-----END EC PRIVATE KEY-----",
		"-----BEGIN PRIVATE KEY-----\n" + canary,
		"macaroon=" + canary,
		"secret://" + canary, "secret: //" + canary, `"password":"secret://` + canary + `"`,
		"?access_token=" + canary + "&x=1",
	} {
		got := Text(text)
		if strings.Contains(got, canary) || strings.Contains(got, strings.ReplaceAll(canary, "-", "")) {
			t.Errorf("%q became %q", text, got)
		}
		if again := Text(got); again != got {
			t.Errorf("masking twice: %q became %q", got, again)
		}
	}
}

func TestOrdinaryTextStays(t *testing.T) {
	requirements.Covers(t, "OSX-12")
	for _, text := range []string{
		"session_id=2f6c author=ada signal=SIGTERM",
		`{"session_id":"s-1","author":"Ada","signal":"15","authority":"x","tokens":12,"token_count":3}`,
		"basic arithmetic",
		"max_tokens: 4096",
		"a secretary wrote: hello",
		"keyboard: qwerty",
		"https://example.com/a:b?x=1",
		"1\n2\n3\n",
		`{"pin":"secret://KHJM6TJ6SOWGE6S4BK7T3I3DE7","password":"secret://KHJM6TJ6SOWGE6S4BK7T3I3DE7"}`,
		"",
	} {
		if got := Text(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("password: hunter2")
	f.Add("Bearer abcdefgh")
	f.Add(`"token":"\\"`)
	f.Fuzz(func(t *testing.T, s string) {
		once := Text(s)
		if len(once) > 4*MaxText+len(Mask) {
			t.Errorf("%d bytes became %d", len(s), len(once))
		}
	})
}
