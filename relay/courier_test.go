package relay

import (
	"errors"
	"strings"
	"testing"

	"github.com/lightwork-market/lightwork/relay/nip01"
)

func TestCourier(t *testing.T) {
	r := startRelay(t)
	ev := note(t, "brought", 0)
	if got := NewCourier(CourierConfig{AllowLoopback: true}).Publish(t.Context(), r.url(), ev); !got.OK || got.Err != nil {
		t.Errorf("%+v", got)
	}
	pool := startPool(t, Config{URLs: []string{r.url()}})
	publish(t, pool, ev) // it has it: that is fine
	c := NewCourier(CourierConfig{})
	for _, address := range []string{
		r.url(), "ws://example.com", "wss://10.0.0.1", "wss://169.254.169.254/latest", "wss://[::1]", "https://example.com", "wss://user@example.com",
		"", "ws", "file:///etc/passwd", "wss://localhost:1", strings.Repeat("x", 9999),
	} {
		if got := c.Publish(t.Context(), address, ev); got.OK || !errors.Is(got.Err, ErrBlockedAddress) {
			t.Errorf("%.60q: %+v", address, got)
		}
	}
	babbler := fakeRelay(t, func(_ nip01.ClientMessage, send func(string)) {
		for range 100 {
			send(`["NOTICE","x"]`)
		}
	})
	if got := NewCourier(CourierConfig{AllowLoopback: true}).Publish(t.Context(), babbler, ev); got.OK || got.Err == nil {
		t.Errorf("a relay that says much and not OK: %+v", got)
	}
}
